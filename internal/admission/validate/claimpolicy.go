package validate

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/policy"
)

// ClaimPolicy tells everything that is wrong with a policy that is created (old is nil) or
// changed: the kind that it is triggered by, and what does not compile. Resource types that are
// not registered are not wrong: the policy becomes ready when they are.
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
