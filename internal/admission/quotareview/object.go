package quotareview

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/forecast"
	"github.com/bursar/bursar/internal/policy"
)

// The operations of objects, as the answer names them.
const (
	operationCreate = "Create"
	operationUpdate = "Update"
	operationDelete = "Delete"
)

// object returns the item of an object, with its changes, or with its result if there is nothing to decide.
func (q *question) object(ctx context.Context, reviewed *quotav1alpha1.ReviewedObject) *item {
	it := &item{}
	var content map[string]any
	if err := utiljson.Unmarshal(reviewed.Object.Raw, &content); err != nil {
		it.deny(fmt.Sprintf("the object cannot be read: %v", err))
		return it
	}
	object := &unstructured.Unstructured{Object: content}
	it.object = evaluator.ObjectOf(object.GroupVersionKind(), object)
	it.generateName = object.GetGenerateName()
	if namespaces.IsExempt(q.Evaluator.SystemNamespace, it.object.Kind.GroupKind(), it.object.Name) {
		it.result = quotav1alpha1.ReviewResultFits
		return it
	}
	if isDecidedElsewhere(it.object.Kind.GroupKind()) {
		it.unknown("a QuotaReview does not decide on objects of kind " + it.object.Kind.Kind)
		return it
	}
	policies := q.Catalog.PoliciesOf(it.object.Kind.GroupKind())
	if len(policies) == 0 {
		it.result = quotav1alpha1.ReviewResultFits
		return it
	}
	if err := q.find(ctx, it, reviewed.Operation); err != nil {
		it.unknown(err.Error())
	}
	if it.result != "" {
		return it
	}
	for _, p := range policies {
		if p.Trigger != it.object.Kind {
			it.unknown(fmt.Sprintf("ClaimCreationPolicy %s is for version %s of %s: give the object in that version", p.Name, p.Trigger.GroupVersion(), p.Trigger.Kind))
			return it
		}
	}
	switch it.operation {
	case operationDelete:
		it.free(q.Facts.Held(it.object.Kind, it.object.UID))
	case operationUpdate:
		q.update(ctx, it, policies, content)
	default:
		q.create(ctx, it, policies, content)
	}
	return it
}

// isDecidedElsewhere reports whether Bursar decides on the objects of a kind by other rules than policies.
func isDecidedElsewhere(kind schema.GroupKind) bool {
	return kind == schema.GroupKind{Kind: "ResourceQuota"} || kind == schema.GroupKind{Group: quotav1alpha1.GroupName, Kind: "ResourceClaim"}
}

// find determines the operation: an update, if the object exists. Users without a right to read objects of the kind
// do not learn of their existence.
func (q *question) find(ctx context.Context, it *item, asked quotav1alpha1.ReviewedOperation) error {
	resource, served, err := q.Kinds.VersionedResourceFor(ctx, it.object.Kind)
	switch {
	case err != nil:
		return fmt.Errorf("look up kind %s: %w", it.object.Kind.Kind, err)
	case !served:
		return fmt.Errorf("kind %s is not served in version %s", it.object.Kind.GroupKind(), it.object.Kind.GroupVersion())
	}
	it.resource = resource
	may, err := q.may(ctx, authorizationv1.ResourceAttributes{
		Namespace: it.object.Name.Namespace, Verb: "get", Group: resource.Group, Resource: resource.Resource,
	})
	if err != nil {
		return err
	}
	if !may {
		return fmt.Errorf("you may not get %s in namespace %q, so Bursar does not say whether the object exists", resource.Resource, it.object.Name.Namespace)
	}
	if it.object.UID, err = q.Facts.Find(ctx, it.object.Kind, it.object.Name); err != nil {
		return err
	}
	exists := it.object.UID != ""
	switch {
	case asked == quotav1alpha1.ReviewedOperationDelete && !exists:
		it.operation, it.result, it.message = operationDelete, quotav1alpha1.ReviewResultFits, "there is no such object"
	case asked == quotav1alpha1.ReviewedOperationDelete:
		it.operation = operationDelete
	case exists:
		it.operation = operationUpdate
	default:
		it.operation = operationCreate
	}
	return nil
}

// create adds the cost of a new object. The user of the review is the user of the create.
func (q *question) create(ctx context.Context, it *item, policies []*catalog.Policy, content map[string]any) {
	extra := make(map[string][]string, len(q.user.Extra))
	for key, values := range q.user.Extra {
		extra[key] = values
	}
	in := policy.Input{
		Object: content,
		User:   policy.UserInfo{Name: q.user.Username, UID: q.user.UID, Groups: q.user.Groups, Extra: extra},
		RequestInfo: policy.RequestInfo{
			Verb: "create", APIGroup: it.resource.Group, APIVersion: it.resource.Version, Resource: it.resource.Resource,
			Namespace: it.object.Name.Namespace, Name: it.object.Name.Name,
		},
	}
	q.evaluate(ctx, it, policies, in, func(p *catalog.Policy, demand *evaluator.Claim) {
		if demand != nil {
			q.add(it, p, forecast.Change{Consumer: demand.Consumer, After: demand.Charges})
		}
	})
}

// update adds the changed cost of an existing object. An object that counts without a claim costs what it demands, also
// by a policy that does not review the update.
func (q *question) update(ctx context.Context, it *item, policies []*catalog.Policy, content map[string]any) {
	following := slices.DeleteFunc(slices.Clone(policies), func(p *catalog.Policy) bool { return !p.FollowsUpdates() && !p.CountsObjects() })
	held := q.Facts.Held(it.object.Kind, it.object.UID)
	q.evaluate(ctx, it, following, q.Evaluator.Input(content), func(p *catalog.Policy, demand *evaluator.Claim) {
		before, isHeld := held[claims.LabelValue(p.Name)]
		var after []ledger.Charge
		if demand != nil {
			after = demand.Charges
		}
		switch {
		case isHeld && (demand == nil || demand.Consumer == before.Consumer):
			q.add(it, p, forecast.Change{Consumer: before.Consumer, Before: before.Charges, After: after})
		case isHeld:
			q.add(it, p, forecast.Change{Consumer: before.Consumer, Before: before.Charges})
			q.add(it, p, forecast.Change{Consumer: demand.Consumer, After: after})
		case demand != nil:
			q.add(it, p, forecast.Change{Consumer: demand.Consumer, After: after})
		}
	})
}

// evaluate evaluates policies for an object, and calls demanded for each applicable one.
func (q *question) evaluate(ctx context.Context, it *item, policies []*catalog.Policy, in policy.Input, demanded func(*catalog.Policy, *evaluator.Claim)) {
	if err := q.Evaluator.Complete(ctx, &in, it.object.Name.Namespace, policies); err != nil {
		it.unknown(err.Error())
		return
	}
	for _, p := range policies {
		demand, err := q.Evaluator.Evaluate(ctx, p, it.object, in)
		if err == nil && demand != nil && p.Enforces() && it.operation == operationCreate {
			err = q.Catalog.CheckNew(p.ResourceTypes...)
		}
		switch {
		case evaluator.IsTransient(err):
			it.unknown(err.Error())
		case err != nil:
			q.fail(it, p, err)
		default:
			demanded(p, demand)
		}
	}
}

// markRepeated takes the decision from each object named more than once in the set, because its fate is unknown. It
// ignores items without a name or an operation.
func markRepeated(items []*item) {
	type name struct {
		schema.GroupKind
		types.NamespacedName
	}
	byName := map[name][]*item{}
	for _, it := range items {
		if it.object.Name.Name != "" && it.operation != "" {
			at := name{it.object.Kind.GroupKind(), it.object.Name}
			byName[at] = append(byName[at], it)
		}
	}
	for _, repeated := range byName {
		if len(repeated) == 1 {
			continue
		}
		for _, it := range repeated {
			it.changes = nil
			it.unknown("the set names this object more than once: name each object once")
		}
	}
}
