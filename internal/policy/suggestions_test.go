package policy

import (
	"strings"
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The answer to the most frequent mistakes is the right expression.
func TestSlips(t *testing.T) {
	condition := func(source string) func(*quotav1alpha1.ClaimCreationPolicy) { return withConditions(source) }
	amount := func(source string) func(*quotav1alpha1.ClaimCreationPolicy) {
		return func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].Amount = 0
			p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = source
		}
	}
	consumer := func(source string) func(*quotav1alpha1.ClaimCreationPolicy) {
		return func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = source
		}
	}
	const all = "this expression sees trigger, object, namespaceObject, user and requestInfo"
	for name, tc := range map[string]struct {
		reason string
		change func(*quotav1alpha1.ClaimCreationPolicy)
		want   string
	}{
		"unknown":             {"all there is is listed", condition(`app.spec.x == 1`), "1:1: undeclared reference to 'app'; " + all},
		"of other admission":  {"ValidatingAdmissionPolicies call it so", condition(`request.userInfo.username == "a"`), "1:1: undeclared reference to 'request'; " + all + "; did you mean requestInfo?"},
		"in an amount":        {"which sees no user", amount(`user.name == "a" ? 1 : 2`), "1:1: undeclared reference to 'user'; this expression sees trigger, object and namespaceObject"},
		"function":            {"variables do not help", condition(`quant("1").isInteger()`), "1:6: undeclared reference to 'quant'"},
		"template in CEL":     {"braces are for templates", amount(`{{.trigger.spec.replicas}}`), "this is CEL, which has no {{ }}: write trigger.metadata.name, for example"},
		"dollar":              {"another one", consumer(`{{$trigger.metadata.name}}`), `undefined variable "$trigger"; did you mean .trigger?`},
		"unknown in template": {"all there is is listed", consumer(`{{.metadata.name}}`), "there is no .metadata; templates see .trigger, .object, .namespaceObject, .user and .requestInfo"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := validPolicy()
			tc.change(policy)
			_, errs := Compile(policy)
			if len(errs) == 0 || !strings.Contains(errs[0].Detail, tc.want) {
				t.Errorf("%s: got %v, want %q", tc.reason, errs, tc.want)
			}
		})
	}
}
