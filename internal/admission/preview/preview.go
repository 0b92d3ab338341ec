// Package preview evaluates each new or changed policy on existing objects, and warns its author. It only reads, for
// a short time. It only warns, because the objects may change. Package validate calls it through an interface.
package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/validation/spec"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/policy"
)

const (
	// timeMax bounds a preview. The author of the policy waits for it.
	timeMax = 1500 * time.Millisecond
	// objectsMax bounds the objects on which a preview evaluates a policy.
	objectsMax = 20
	// countedMax bounds them for a policy without claims, whose demand is added up. A read has countedPage of them.
	countedMax, countedPage = 5000, 500
	// namesMax is the number of objects in a warning.
	namesMax = 3
	// reasonsMax bounds the reported reasons, and mismatchesMax the reported mismatches.
	reasonsMax, mismatchesMax = 3, 5
)

// Schemas returns the schemas of kinds, with all references resolved.
type Schemas interface {
	ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error)
}

// Previewer previews policies. It is safe for concurrent use.
type Previewer struct {
	Evaluator *evaluator.Evaluator
	Kinds     discoverycache.Resolver
	Schemas   Schemas
	// Live reads objects from the API server.
	Live dynamic.Interface
	// Inventory has the objects that count without claims, and Ledgers the limits of their consumers.
	Inventory *inventory.Inventory
	Ledgers   Ledgers
}

// ClaimPolicy returns warnings for the author of a policy that compiles.
func (p *Previewer) ClaimPolicy(ctx context.Context, object *quotav1alpha1.ClaimCreationPolicy) []string {
	compiled, errs := policy.Compile(object)
	if len(errs) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeMax)
	defer cancel()
	kind := catalog.TriggerOf(object)
	resource, served, err := p.Kinds.VersionedResourceFor(ctx, kind)
	switch {
	case err != nil:
		return []string{notTried(err)}
	case !served:
		return []string{fmt.Sprintf("the policy is not ready yet: kind %s in version %s is not served by this API server", kind.GroupKind(), kind.GroupVersion())}
	}
	warnings := p.mismatches(ctx, kind, compiled)
	if compiled.UsesRequest() {
		return warnings // nobody knows the requests of existing objects
	}
	each := &catalog.Policy{ClaimPolicy: compiled, Name: object.Name, Trigger: kind}
	if each.CountsObjects() && object.IsEnabled() {
		return append(warnings, p.tryCounted(ctx, resource, each)...)
	}
	return append(warnings, p.try(ctx, resource, each)...)
}

// GrantPolicy returns warnings for the author of a policy that compiles. It does not evaluate the policy, because a
// controller does so as soon as the policy exists.
func (p *Previewer) GrantPolicy(ctx context.Context, object *quotav1alpha1.GrantCreationPolicy) []string {
	compiled, errs := policy.CompileGrant(object)
	if len(errs) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeMax)
	defer cancel()
	trigger := object.Spec.Trigger.Resource
	return p.mismatches(ctx, schema.FromAPIVersionAndKind(trigger.APIVersion, trigger.Kind), compiled)
}

// mismatches compares a compiled policy with the schema of its kind. A kind without a schema matches.
func (p *Previewer) mismatches(ctx context.Context, kind schema.GroupVersionKind, compiled interface {
	Mismatches(*spec.Schema) []string
},
) []string {
	found := make(chan []string, 1)
	go func() { // the resolver takes no context
		object, err := p.Schemas.ResolveSchema(kind)
		if err != nil {
			found <- nil
			return
		}
		found <- compiled.Mismatches(object)
	}()
	var all []string
	select {
	case all = <-found:
	case <-ctx.Done():
		return nil
	}
	var warnings []string
	for _, mismatch := range all[:min(len(all), mismatchesMax)] {
		warnings = append(warnings, fmt.Sprintf("the policy does not fit the schema of %s: %s", kind.Kind, mismatch))
	}
	return warnings
}

func notTried(err error) string {
	return fmt.Sprintf("the policy was not tried on existing objects: %v", err)
}

// try evaluates a policy on the first objects of its kind.
func (p *Previewer) try(ctx context.Context, resource schema.GroupVersionResource, each *catalog.Policy) []string {
	list, err := p.Live.Resource(resource).List(ctx, metav1.ListOptions{Limit: objectsMax})
	if err != nil {
		return []string{notTried(err)}
	}
	t := trial{kind: each.Trigger.Kind, resource: resource.Resource, isPart: list.GetContinue() != ""}
	p.tryPage(ctx, each, list, &t)
	return t.warnings()
}

// tryCounted evaluates a policy without claims on the objects of its kind, and adds up what they demand.
func (p *Previewer) tryCounted(ctx context.Context, resource schema.GroupVersionResource, each *catalog.Policy) []string {
	t := trial{kind: each.Trigger.Kind, resource: resource.Resource}
	t.recount = newRecount(each.Name, p.Inventory.Kind(inventory.NameOf(each.Trigger)))
	// Some of the time is for the limits.
	reading, cancel := context.WithTimeout(ctx, timeMax*2/3)
	defer cancel()
	for next := ""; ; {
		page, err := p.Live.Resource(resource).List(reading, metav1.ListOptions{Limit: countedPage, Continue: next})
		if err != nil && t.tried == 0 {
			return []string{notTried(err)}
		}
		isComplete := err == nil && p.tryPage(reading, each, page, &t)
		if isComplete {
			next = page.GetContinue()
		}
		t.isPart = !isComplete || next != ""
		if !isComplete || next == "" || t.tried >= countedMax {
			break
		}
	}

	warnings := t.warnings()
	if t.recount.objects > 0 {
		among := ""
		if t.isPart {
			among = fmt.Sprintf("among %s objects, ", t.of())
		}
		warnings = append(warnings, p.warning(ctx, t.recount, among))
	}
	return warnings
}

// tryPage evaluates a policy on listed objects. It reports whether the time was enough.
func (p *Previewer) tryPage(ctx context.Context, each *catalog.Policy, page *unstructured.UnstructuredList, t *trial) bool {
	for i := range page.Items {
		item := &page.Items[i]
		object := evaluator.ObjectOf(each.Trigger, item)
		if namespaces.IsExempt(p.Evaluator.SystemNamespace, each.Trigger.GroupKind(), object.Name) {
			continue
		}
		demand, err := p.evaluate(ctx, each, object, item)
		if evaluator.IsTransient(err) {
			if ctx.Err() != nil {
				return false
			}
			continue
		}
		t.record(object, err)
		if t.recount != nil && err == nil {
			t.recount.add(object.UID, demand)
		}
	}
	return true
}

// evaluate returns what an object demands by the policy, or the reason for the policy's failure. It ignores violations
// of registrations, because their warnings come from package validate.
func (p *Previewer) evaluate(ctx context.Context, each *catalog.Policy, object evaluator.Object, item *unstructured.Unstructured) (*evaluator.Claim, error) {
	in := p.Evaluator.Input(item.Object)
	if err := p.Evaluator.Complete(ctx, &in, object.Name.Namespace, []*catalog.Policy{each}); err != nil {
		return nil, err
	}
	demand, err := p.Evaluator.Evaluate(ctx, each, object, in)
	if evaluator.IsNotAllowed(err) {
		return nil, nil
	}
	return demand, err
}

// trial collects the results of a policy on objects of a kind.
type trial struct {
	kind, resource string
	// isPart is set if there are more objects than tried.
	isPart bool
	tried  int
	failed []failure
	// recount, for a policy without claims, adds up the demand.
	recount *recount
}

// failure is a reason for the policy's failure on objects, with the names of the objects.
type failure struct {
	reason string
	names  []string
}

func (t *trial) record(object evaluator.Object, err error) {
	t.tried++
	if err == nil {
		return
	}
	reason := err.Error()
	var evaluation *policy.EvaluationError
	if errors.As(err, &evaluation) {
		reason = evaluation.Reason()
	}
	name := cache.NamespacedNameAsObjectName(object.Name).String()
	for i := range t.failed {
		if t.failed[i].reason == reason {
			t.failed[i].names = append(t.failed[i].names, name)
			return
		}
	}
	t.failed = append(t.failed, failure{reason, []string{name}})
}

// of says how many objects were tried, and whether these are all.
func (t *trial) of() string {
	if t.isPart {
		return fmt.Sprintf("the first %d", t.tried)
	}
	return fmt.Sprint(t.tried)
}

// warnings begins with the reason that affects most objects.
func (t *trial) warnings() []string {
	slices.SortStableFunc(t.failed, func(a, b failure) int { return cmp.Compare(len(b.names), len(a.names)) })
	of := t.of()
	var warnings []string
	for _, f := range t.failed[:min(len(t.failed), reasonsMax)] {
		names := strings.Join(f.names[:min(len(f.names), namesMax)], ", ")
		if more := len(f.names) - namesMax; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		warnings = append(warnings, fmt.Sprintf("the policy cannot be applied to %d of %s %s objects: %s (%s %s)",
			len(f.names), of, t.kind, f.reason, t.resource, names))
	}
	return warnings
}
