package validate

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/policy"
)

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
