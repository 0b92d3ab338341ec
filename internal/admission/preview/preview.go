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
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/policy"
)

const (
	// timeMax bounds a preview. The author of the policy waits for it.
	timeMax = 1500 * time.Millisecond
	// objectsMax bounds the objects on which a preview evaluates a policy.
	objectsMax = 20
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
	return append(warnings, p.try(ctx, resource, &catalog.Policy{ClaimPolicy: compiled, Name: object.Name, Trigger: kind})...)
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
	for i := range list.Items {
		item := &list.Items[i]
		object := evaluator.ObjectOf(each.Trigger, item)
		if namespaces.IsExempt(p.Evaluator.SystemNamespace, each.Trigger.GroupKind(), object.Name) {
			continue
		}
		err := p.evaluate(ctx, each, object, item)
		if evaluator.IsTransient(err) {
			if ctx.Err() != nil {
				break
			}
			continue
		}
		t.record(object, err)
	}
	return t.warnings()
}

// evaluate returns the reason for a policy's failure on an object. It ignores violations of registrations, because
// their warnings come from package validate.
func (p *Previewer) evaluate(ctx context.Context, each *catalog.Policy, object evaluator.Object, item *unstructured.Unstructured) error {
	in := p.Evaluator.Input(item.Object)
	if err := p.Evaluator.Complete(ctx, &in, object.Name.Namespace, []*catalog.Policy{each}); err != nil {
		return err
	}
	_, err := p.Evaluator.Evaluate(ctx, each, object, in)
	if evaluator.IsNotAllowed(err) {
		return nil
	}
	return err
}

// trial collects the results of a policy on objects of a kind.
type trial struct {
	kind, resource string
	// isPart is set if there are more objects than tried.
	isPart bool
	tried  int
	failed []failure
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

// warnings begins with the reason that affects most objects.
func (t *trial) warnings() []string {
	slices.SortStableFunc(t.failed, func(a, b failure) int { return cmp.Compare(len(b.names), len(a.names)) })
	of := fmt.Sprintf("%d", t.tried)
	if t.isPart {
		of = "the first " + of
	}
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
