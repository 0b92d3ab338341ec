package policy

import (
	"strings"
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The amounts themselves are compared with those of Kubernetes where policies count as ResourceQuotas do, in
// internal/cli/importer and examples/resourcequota.
func TestPodResources(t *testing.T) {
	requests := func(cpu any) map[string]any {
		return map[string]any{"requests": map[string]any{"cpu": cpu}}
	}
	container := func(cpu any) map[string]any { return map[string]any{"name": "a", "resources": requests(cpu)} }
	podOf := func(cpu any) map[string]any {
		return map[string]any{"spec": map[string]any{"containers": []any{container(cpu)}}}
	}
	resized := podOf("100m")
	resized["status"] = map[string]any{"containerStatuses": []any{map[string]any{"name": "a", "resources": requests("900m")}}}
	bare := podOf("1")
	bare["spec"].(map[string]any)["containers"] = []any{map[string]any{"name": "a", "resources": nil}}
	bare["spec"].(map[string]any)["overhead"] = nil

	for name, tc := range map[string]struct {
		reason     string
		object     map[string]any
		expression string
		want       int64
		wantErr    string
	}{
		"Pod":       {"the sum of its containers", podOf("500m"), `podRequests(trigger, "cpu")`, 500, ""},
		"Template":  {"workloads have one", map[string]any{"spec": map[string]any{"replicas": int64(3), "template": podOf("500m")}}, `podRequests(trigger.spec.template, "cpu") * trigger.spec.replicas`, 1500, ""},
		"Literal":   {"a policy may put a Pod together", podOf("500m"), `podRequests({"spec": {"containers": trigger.spec.containers}}, "cpu")`, 500, ""},
		"Resized":   {"the container still has it", resized, `podRequests(trigger, "cpu")`, 900, ""},
		"Number":    {"custom resources may have numbers", podOf(int64(2)), `podRequests(trigger, "cpu")`, 2000, ""},
		"Other":     {"it requests none", podOf("1"), `podRequests(trigger, "example.com/gpu")`, 0, ""},
		"Limits":    {"it has none", podOf("1"), `podLimits(trigger, "cpu")`, 0, ""},
		"Nulls":     {"null is nothing", bare, `podRequests(trigger, "cpu")`, 0, ""},
		"NoPod":     {"the author took the wrong field", map[string]any{"spec": map[string]any{"template": podOf("1")}}, `podRequests(trigger, "cpu")`, 0, "podRequests: the first argument has no spec.containers; it takes a Pod or a Pod template"},
		"Text":      {"the object may be anything", podOf("a lot"), `podRequests(trigger, "cpu")`, 0, "podRequests: a lot is not a quantity"},
		"Enormous":  {"the parse would take hours", podOf("1E1000000000"), `podLimits(trigger, "cpu") + podRequests(trigger, "cpu")`, 0, "is not a quantity"},
		"Structure": {"a quantity is no map", podOf(map[string]any{}), `podRequests(trigger, "cpu")`, 0, "is not a quantity"},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustCompile(t, func(p *quotav1alpha1.ClaimCreationPolicy) {
				p.Spec.Target.ResourceClaimTemplate.Spec.Requests = []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "t", AmountExpression: tc.expression}}
			})

			got, err := p.Requests(t.Context(), Input{Object: tc.object, Units: unit("millicore")})

			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("%s: got %v, want an error with %q", tc.reason, err, tc.wantErr)
				}
				return
			}
			var amount int64
			if len(got) > 0 {
				amount = got[0].Amount
			}
			if err != nil || amount != tc.want {
				t.Errorf("%s: %s = %d, %v, want %d", tc.reason, tc.expression, amount, err, tc.want)
			}
		})
	}
}
