package validate

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/policy"
)

// requestIsEmpty warns of a template that uses fields without a value.
const requestIsEmpty = "the template uses user or requestInfo, and all their fields are empty in a GrantCreationPolicy: " +
	"it applies to objects, and no request is involved"

// GrantPolicy validates a created (old is nil) or changed policy: its trigger kind, the kind of its control plane,
// its allowances and its expressions. Unserved kinds and unregistered resource types are valid: the policy becomes
// ready once they exist.
func GrantPolicy(old, new *quotav1alpha1.GrantCreationPolicy) field.ErrorList {
	if old != nil && equality.Semantic.DeepEqual(old.Spec, new.Spec) {
		return nil
	}
	path := field.NewPath("spec")
	resource := new.Spec.Trigger.Resource
	errs := checkTrigger(path.Child("trigger", "resource"), resource.APIVersion, resource.Kind, groupsWithoutPolicy)
	target := path.Child("target")
	if parent := new.Spec.Target.ParentContext; parent != nil {
		at := target.Child("parentContext")
		errs = append(errs, checkGroup(at.Child("apiGroup"), parent.APIGroup)...)
		errs = append(errs, checkKind(at.Child("kind"), parent.Kind)...)
	}
	template, at := new.Spec.Target.ResourceGrantTemplate, target.Child("resourceGrantTemplate")
	errs = append(errs, checkAllowances(at.Child("spec", "allowances"), template.Spec.Allowances)...)
	if threshold := template.Metadata.Annotations[quotav1alpha1.AnnotationAlertThreshold]; !strings.Contains(threshold, "{{") {
		errs = append(errs, checkThreshold(at.Child("metadata"), nil, template.Metadata.Annotations)...)
	}
	_, compileErrs := policy.CompileGrant(new)
	return append(errs, compileErrs...)
}

// grantPolicyWarnings warns of a policy that is valid but probably not intended.
func grantPolicyWarnings(new *quotav1alpha1.GrantCreationPolicy) []string {
	var warnings []string
	if compiled, _ := policy.CompileGrant(new); compiled != nil && compiled.UsesRequest() {
		warnings = append(warnings, requestIsEmpty)
	}
	return warnings
}
