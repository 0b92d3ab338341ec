package importer

import (
	"fmt"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// mayChangeLimits is, in CEL of Kubernetes, whether the user may change policies for claims.
const mayChangeLimits = `authorizer.group("quota.miloapis.com").resource("claimcreationpolicies").check("update").allowed()`

// protection protects the annotations that bind namespaces to their limits: a change needs the right to change policies
// for claims. Otherwise everybody with the right to annotate a namespace could lift its limits. All imports share it.
func protection() []placed {
	const version = "admissionregistration.k8s.io/v1"
	policy := objectOf(version, "ValidatingAdmissionPolicy", "", quotakinds.ImportedProtection, nil)
	policy.Object["spec"] = map[string]any{
		"failurePolicy": "Fail",
		"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
			"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"UPDATE"},
			"resources": []any{"namespaces", "namespaces/status", "namespaces/finalize"}, // all of them change annotations
		}}},
		"validations": []any{map[string]any{
			"expression": fmt.Sprintf(`[[object, oldObject], [oldObject, object]].all(p, p[0].metadata.?annotations.orValue({}).all(k, `+
				`!k.startsWith(%q) || p[1].metadata.?annotations[?k].orValue("") == p[0].metadata.annotations[k])) || %s`, quotav1alpha1.AnnotationImportedLimits, mayChangeLimits),
			"message": "the annotations " + quotav1alpha1.AnnotationImportedLimits + "* bind the namespace to its quota: a change needs the right to update claimcreationpolicies.quota.miloapis.com",
			"reason":  "Forbidden",
		}},
	}
	binding := objectOf(version, "ValidatingAdmissionPolicyBinding", "", quotakinds.ImportedProtection, nil)
	binding.Object["spec"] = map[string]any{"policyName": quotakinds.ImportedProtection, "validationActions": []any{"Deny"}}
	return []placed{{resource: admissionPolicies, object: policy}, {resource: admissionBindings, object: binding}}
}
