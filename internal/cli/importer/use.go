package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/quotakinds"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/ledger"
)

// Short is a limit that would deny something if the policies enforced now.
type Short struct {
	ConsumerRef  quotav1alpha1.ConsumerRef `json:"consumerRef"`
	ResourceType string                    `json:"resourceType"`
	Used         int64                     `json:"used"`
	Limit        int64                     `json:"limit"`
}

// used is a resource type of a consumer.
type used struct {
	consumer     quotav1alpha1.ConsumerRef
	resourceType string
}

// tally evaluates the policies of a plan for the existing objects.
type tally struct {
	plan       *Plan
	catalog    *catalog.Catalog
	evaluator  *evaluator.Evaluator
	namespaces map[string]map[string]any
	// byNamespace has the policies that may apply, by kind and namespace.
	byNamespace map[policyKey][]*catalog.Policy
	sums        map[used]ledger.Amount
	failed      map[string]*failure
}

// failure counts the objects that a policy cannot be applied to. err is the first error.
type failure struct {
	count int
	err   error
}

// policyKey is a kind in a namespace.
type policyKey struct {
	kind      schema.GroupVersionKind
	namespace string
}

// measureUse adds up the charges of existing objects, page by page, and reports the reached limits.
func (i *importer) measureUse(ctx context.Context, report *Report) error {
	t := newTally(report.Plan, i.target.namespaces, quotav1alpha1.AnnotationImportedLimits+i.From, i.SystemNamespace)
	for _, resource := range report.Plan.kinds() {
		kind := schema.FromAPIVersionAndKind(resource.APIVersion, resource.Kind)
		mapping, err := i.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if apimeta.IsNoMatchError(err) {
			report.Plan.Notes = append(report.Plan.Notes, Note{kind.Kind, "the server does not serve it: its policies become effective once it does"})
			continue
		}
		if err != nil {
			return fmt.Errorf("find the resource of %s: %w", kind.Kind, err)
		}
		report.Plan.followed = append(report.Plan.followed, mapping.Resource)
		_, err = quotakinds.Each(ctx, i.api, mapping.Resource, "", func(object *unstructured.Unstructured) error {
			report.Live++
			return t.add(ctx, kind, object)
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	for _, policy := range sortedKeys(t.failed) {
		f := t.failed[policy]
		report.Plan.Notes = append(report.Plan.Notes, Note{"ClaimCreationPolicy " + policy,
			fmt.Sprintf("it cannot be applied to %s, and their use is not in the report; the first error is: %s", message.Count(f.count, "object", "objects"), f.err)})
	}
	report.Short = t.short()
	return nil
}

// newTally returns a tally for the objects in the namespaces of the server with Bursar. annotation is that of
// namespaces with limits of their own.
func newTally(plan *Plan, all []corev1.Namespace, annotation, systemNamespace string) *tally {
	t := &tally{
		plan: plan, catalog: catalog.New(), namespaces: map[string]map[string]any{}, byNamespace: map[policyKey][]*catalog.Policy{},
		sums: map[used]ledger.Amount{}, failed: map[string]*failure{},
	}
	t.evaluator = &evaluator.Evaluator{Catalog: t.catalog, Namespaces: t, SystemNamespace: systemNamespace}
	for _, r := range plan.Registrations {
		active := r.DeepCopy()
		apimeta.SetStatusCondition(&active.Status.Conditions, metav1.Condition{
			Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonRegistrationActive,
		})
		t.catalog.SetRegistration(active)
	}
	for _, p := range plan.Policies {
		if errs := t.catalog.SetPolicy(p); len(errs) > 0 {
			plan.Notes = append(plan.Notes, Note{"ClaimCreationPolicy " + p.Name, errs.ToAggregate().Error()})
		}
	}
	for i := range all {
		namespace := &all[i]
		labels, annotations := map[string]any{}, map[string]any{}
		for key, value := range namespace.Labels {
			labels[key] = value
		}
		for key, value := range namespace.Annotations {
			annotations[key] = value
		}
		delete(annotations, annotation)
		if limited := plan.Limited[namespace.Name]; len(limited) > 0 {
			annotations[annotation] = strings.Join(limited, ",")
		}
		t.namespaces[namespace.Name] = map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
			"name": namespace.Name, "labels": labels, "annotations": annotations,
		}}
	}
	return t
}

// Active implements [evaluator.Namespaces].
func (t *tally) Active(_ context.Context, name string) (bool, error) {
	return t.namespaces[name] != nil, nil
}

// Object implements [evaluator.Namespaces].
func (t *tally) Object(_ context.Context, name string) (map[string]any, error) {
	if namespace := t.namespaces[name]; namespace != nil {
		return namespace, nil
	}
	return nil, fmt.Errorf("there is no namespace %s", name)
}

// add adds the charges of an object.
func (t *tally) add(ctx context.Context, kind schema.GroupVersionKind, object *unstructured.Unstructured) error {
	if namespaces.IsExempt(t.evaluator.SystemNamespace, kind.GroupKind(), types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}) {
		return nil
	}
	policies, err := t.policiesFor(kind, object.GetNamespace())
	if len(policies) == 0 || err != nil {
		return err
	}
	in := t.evaluator.Input(object.Object)
	if object.GetNamespace() != "" && t.namespaces[object.GetNamespace()] == nil {
		return nil // the namespace is newer than the import
	}
	if err := t.evaluator.Complete(ctx, &in, object.GetNamespace(), policies); err != nil {
		return err
	}
	for _, p := range policies {
		claim, err := t.evaluator.Evaluate(ctx, p, evaluator.ObjectOf(kind, object), in)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if t.failed[p.Name] == nil {
				t.failed[p.Name] = &failure{err: fmt.Errorf("%s: %w", evaluator.ObjectOf(kind, object), err)}
			}
			t.failed[p.Name].count++
			continue
		}
		if claim == nil {
			continue
		}
		for _, charge := range claim.Charges {
			key := used{claim.Consumer, charge.ResourceType}
			sum, fits := t.sums[key].Add(charge.Amount)
			if !fits {
				return errors.New("the amounts of " + charge.ResourceType + " are too large to count")
			}
			t.sums[key] = sum
		}
	}
	return nil
}

// policiesFor returns the policies that may apply to objects of a kind in a namespace. A kind may have hundreds of
// policies, and few of them select the namespace.
func (t *tally) policiesFor(kind schema.GroupVersionKind, namespace string) ([]*catalog.Policy, error) {
	key := policyKey{kind, namespace}
	if found, isKnown := t.byNamespace[key]; isKnown {
		return found, nil
	}
	var found []*catalog.Policy
	for _, p := range t.catalog.PoliciesOf(kind.GroupKind()) {
		selects, isSelective := t.plan.selections[p.Name]
		metadata := t.namespaces[namespace]
		if isSelective && metadata != nil {
			matches, err := selects.matches(&unstructured.Unstructured{Object: metadata})
			if err != nil {
				return nil, fmt.Errorf("apply the selector of ClaimCreationPolicy %s: %w", p.Name, err)
			}
			if !matches {
				continue
			}
		}
		found = append(found, p)
	}
	t.byNamespace[key] = found
	return found, nil
}

// short returns the reached limits, by consumer. A charge without a grant exceeds the limit 0. Features are on or off,
// and never deny anything.
func (t *tally) short() []Short {
	limits, isFeature := map[used]int64{}, map[string]bool{}
	for _, r := range t.plan.Registrations {
		isFeature[r.Spec.ResourceType] = r.Spec.Type == quotav1alpha1.RegistrationTypeFeature
	}
	now := time.Now()
	for _, g := range slices.Concat(t.plan.Grants, t.plan.made) {
		for _, a := range g.Spec.Allowances {
			if g.Spec.Counts(&a, now) {
				limits[used{g.Spec.ConsumerRef, a.ResourceType}] += sumOf(a.Buckets)
			}
		}
	}
	for key := range t.sums {
		limits[key] += 0
	}
	var all []Short
	for key, limit := range limits {
		if sum := int64(t.sums[key]); sum >= limit && !isFeature[key.resourceType] {
			all = append(all, Short{key.consumer, key.resourceType, sum, limit})
		}
	}
	slices.SortFunc(all, func(a, b Short) int {
		if isAbove, other := a.Used > a.Limit, b.Used > b.Limit; isAbove != other {
			if isAbove {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.ConsumerRef.Namespace, b.ConsumerRef.Namespace), cmp.Compare(a.ConsumerRef.Name, b.ConsumerRef.Name),
			cmp.Compare(a.ResourceType, b.ResourceType))
	})
	return all
}
