package policy

import (
	"strings"
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestArithmeticOfQuantities(t *testing.T) {
	in := Input{Object: map[string]any{
		"apiVersion": "v1", "kind": "App", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{
			"cpu": "250m", "whole": int64(2), "replicas": int64(3), "memory": "1Gi", "odd": 2.5, "name": "x",
			"containers": []any{map[string]any{"cpu": "100m"}, map[string]any{"cpu": int64(1)}},
		},
	}}
	for name, tc := range map[string]struct {
		reason, expression, unit string
		want                     int64
		wantErr                  string
	}{
		"times replicas":     {"the commonest cost", `quantity(trigger.spec.cpu) * trigger.spec.replicas`, "millicore", 750, ""},
		"replicas times":     {"in either order", `trigger.spec.replicas * quantity(trigger.spec.cpu)`, "millicore", 750, ""},
		"of a number":        {"users write cpu: 2", `quantity(trigger.spec.whole) * trigger.spec.replicas`, "millicore", 6000, ""},
		"literals":           {"types are known", `quantity("500m") * 3`, "millicore", 1500, ""},
		"rounds up":          {"a part of a base unit counts as one", `quantity("0.1005") * 1`, "millicore", 101, ""},
		"sum":                {"quantities add up", `quantity(trigger.spec.cpu) + quantity("1")`, "millicore", 1250, ""},
		"sum with a number":  {"a number counts whole", `quantity(trigger.spec.cpu) + trigger.spec.replicas`, "millicore", 3250, ""},
		"number with a sum":  {"in either order", `1 + quantity(trigger.spec.cpu)`, "millicore", 1250, ""},
		"difference":         {"in either order", `trigger.spec.replicas - quantity(trigger.spec.cpu)`, "millicore", 2750, ""},
		"difference of two":  {"and of two", `quantity(trigger.spec.memory) - quantity("512Mi")`, "MiB", 512, ""},
		"sum of a list":      {"containers of a Pod", `trigger.spec.containers.map(c, quantity(c.cpu)).sum() * trigger.spec.replicas`, "millicore", 3300, ""},
		"sum of nothing":     {"an empty list costs nothing", `[].map(c, quantity(c)).sum()`, "millicore", 0, ""},
		"largest":            {"the larger of two fields", `[quantity(trigger.spec.cpu), quantity("100m"), quantity(trigger.spec.whole)].max()`, "millicore", 2000, ""},
		"largest number":     {"as in CEL", `[trigger.spec.replicas, trigger.spec.whole].max()`, "", 3, ""},
		"largest of nothing": {"there is none", `[].map(c, quantity(c)).max()`, "", 0, "empty"},
		"less":               {"quantities compare", `quantity(trigger.spec.cpu) < quantity("1") ? 1 : 2`, "", 1, ""},
		"more than a number": {"also with numbers", `quantity(trigger.spec.cpu) > trigger.spec.replicas ? 1 : 2`, "", 2, ""},
		"a number less":      {"in either order", `trigger.spec.replicas >= quantity("3") && 3 <= quantity("3") ? 1 : 2`, "", 1, ""},
		"huge":               {"nothing overflows on the way", `quantity("9E") * 1000 - quantity("9E") * 999 > 8 ? 1 : 2`, "", 1, ""},
		"round up a number":  {"on request", `roundUp(trigger.spec.odd)`, "", 3, ""},
		"round up a whole":   {"it is one", `roundUp(trigger.spec.whole)`, "", 2, ""},
		"round up quantity":  {"to whole cores", `roundUp(quantity("1500m"))`, "millicore", 2000, ""},
		"numbers":            {"numbers are as before", `trigger.spec.replicas * 2 + 1 - 3`, "", 4, ""},
		"texts":              {"texts are as before", `size(trigger.spec.name + "y")`, "", 2, ""},
		"fractions":          {"mixed comparisons are as before", `trigger.spec.odd < trigger.spec.replicas && trigger.spec.odd > 2 ? 1 : 2`, "", 1, ""},
		"two quantities":     {"there are no square cores", `quantity("1") * dyn(quantity(trigger.spec.cpu))`, "", 0, "no such overload"},
		"a text":             {"is not a number", `quantity("1") * trigger.spec.name`, "", 0, "no such overload"},
		"no numbers":         {"as before", `trigger.spec.name * 2`, "", 0, "no such overload"},
		"missing":            {"the field is named", `quantity(trigger.spec.gpu) * 2`, "", 0, "no such key: gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustCompile(t, func(p *quotav1alpha1.ClaimCreationPolicy) {
				p.Spec.Target.ResourceClaimTemplate.Spec.Requests = []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "t", AmountExpression: tc.expression}}
			})
			in.Units = unit(tc.unit)
			requests, err := p.Requests(t.Context(), in)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("%s: got %v, want an error with %q", tc.reason, err, tc.wantErr)
				}
				return
			}
			var got int64
			if len(requests) > 0 {
				got = requests[0].Amount
			}
			if err != nil || got != tc.want {
				t.Errorf("%s: %s = %d, %v, want %d", tc.reason, tc.expression, got, err, tc.want)
			}
		})
	}
}
