package validate

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/policy"
)

// Counted has the objects that count themselves.
type Counted interface {
	// CountedBy returns how many objects of a kind demand something by a policy, and of how many consumers.
	CountedBy(kind schema.GroupVersionKind, policy string) (objects, consumers int)
}

// ClaimPolicy validates a created (old is nil) or changed policy: its trigger kind and its expressions. Unregistered
// resource types are valid: the policy becomes ready after their registration.
func ClaimPolicy(old, new *quotav1alpha1.ClaimCreationPolicy) field.ErrorList {
	if old != nil && equality.Semantic.DeepEqual(old.Spec, new.Spec) {
		return nil
	}
	resource := new.Spec.Trigger.Resource
	errs := checkTrigger(field.NewPath("spec", "trigger", "resource"), resource.APIVersion, resource.Kind, groupsWithoutPolicy, groupsWithoutWebhooks)
	compiled, compileErrs := policy.Compile(new)
	if compiled != nil {
		compileErrs = compiled.ConstantErrors(context.Background())
	}
	errs = append(errs, compileErrs...)
	if old != nil && compiled != nil {
		errs = append(errs, checkSort(old, compiled)...)
	}
	return errs
}

// checkSort checks that a changed policy still counts objects, or still does not. The objects that exist have either
// claims with their charges or none, and nobody can tell afterwards what a create demanded.
func checkSort(old *quotav1alpha1.ClaimCreationPolicy, changed *policy.ClaimPolicy) field.ErrorList {
	before, errs := policy.Compile(old)
	if len(errs) > 0 || before.CountsObjects() == changed.CountsObjects() {
		return nil
	}
	const advice = ", and charges of existing objects cannot move; create another policy for it, and then delete this one"
	reason := "this policy depends on the user or the request, and would no longer do so" + advice
	if before.CountsObjects() {
		reason = "this policy depends only on objects and namespaces, and would come to depend on user or requestInfo" + advice
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), reason)}
}

// annotationsOfRecord warns of annotations for which the policy counts no objects: it has claims of record only because
// these name the user or the request.
func annotationsOfRecord(p *quotav1alpha1.ClaimCreationPolicy) []string {
	if compiled, _ := policy.Compile(p); compiled == nil || compiled.CountsObjects() || compiled.UsesRequest() {
		return nil
	}
	return []string{"annotations of its claims use user or requestInfo, so objects that nobody reviews do not count by this policy, " +
		"such as those that exist already; without these annotations all objects count"}
}

// warnStopsCounting warns of the objects that no longer count once a policy is deleted (new is nil),
// disabled, or about another kind: their quota is free at once.
func (w *Webhooks) warnStopsCounting(old, new *quotav1alpha1.ClaimCreationPolicy) []string {
	if old == nil || old.DeletionTimestamp != nil {
		return nil
	}
	if compiled, _ := policy.Compile(old); compiled == nil || !compiled.CountsObjects() {
		return nil
	}
	kind := catalog.TriggerOf(old)
	if new != nil && new.IsEnabled() && catalog.TriggerOf(new) == kind {
		return nil
	}
	objects, consumers := w.Counted.CountedBy(kind, old.Name)
	if objects == 0 {
		return nil
	}
	return []string{fmt.Sprintf("ClaimCreationPolicy %s: %s of %s no longer %s from now on, and their quota is free at once",
		old.Name, counted(objects, "object"), counted(consumers, "consumer"), either(objects, "counts", "count"))}
}
