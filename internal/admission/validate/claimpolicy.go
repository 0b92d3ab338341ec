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

// Counted has the objects that count without claims.
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
	return append(errs, compileErrs...)
}

// warnStopsCounting warns of the objects that no longer count once a policy without claims is deleted (new is nil),
// disabled, or about another kind: their quota is free at once.
func (w *Webhooks) warnStopsCounting(old, new *quotav1alpha1.ClaimCreationPolicy) []string {
	if old == nil || old.Spec.Claims != quotav1alpha1.ClaimsModeNone || old.DeletionTimestamp != nil {
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
