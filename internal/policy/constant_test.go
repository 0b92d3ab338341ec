package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestConstantErrors(t *testing.T) {
	amount := func(expression string) func(*quotav1alpha1.ClaimCreationPolicy) {
		return func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].Amount = 0
			p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = expression
		}
	}
	const at = "spec.target.resourceClaimTemplate.spec.requests[0].amountExpression: Invalid value: "
	for name, tc := range map[string]struct {
		reason string
		change func(*quotav1alpha1.ClaimCreationPolicy)
		want   []string
	}{
		"valid":     {"it reads the object", nil, nil},
		"whole":     {"a constant may be an amount", amount("2 * 3"), nil},
		"quantity":  {"in any form", amount(`"500m"`), nil},
		"nothing":   {"0 costs nothing", amount("0"), nil},
		"negative":  {"no object costs less than nothing", amount("-5"), []string{at + `"-5": it yields -5, which is negative`}},
		"fraction":  {"base units are whole", amount("1.5"), []string{at + `"1.5": it yields 1.5, which is not a whole number of base units`}},
		"text":      {"not every text is a quantity", amount(`"abc"`), []string{at + `"\"abc\"": it yields the text "abc", which is not a quantity`}},
		"object":    {"what it comes to is known for an object", amount("-trigger.spec.replicas"), nil},
		"condition": {"a number is no answer", withConditions("dyn(5)"), []string{`spec.trigger.conditions[0].expression: Invalid value: "dyn(5)": it yields int, not bool`}},
		"template": {
			"it yields the same for every object",
			func(p *quotav1alpha1.ClaimCreationPolicy) {
				p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = `{{"" | trim}}`
			},
			[]string{`spec.target.resourceClaimTemplate.spec.consumerRef.name: Invalid value: "{{\"\" | trim}}": the text is empty`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range mustCompile(t, tc.change).ConstantErrors(t.Context()) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
