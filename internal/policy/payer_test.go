package policy

import (
	"strings"
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestPayerFromObject(t *testing.T) {
	for name, tc := range map[string]struct{ reason, source, want string }{
		"constant":         {"nobody chooses", "acme", ""},
		"field":            {"who writes the object chooses", "{{.trigger.spec.payer}}", "may write .trigger.spec.payer of"},
		"object":           {"both names are of the object", "{{ .object.spec.payer }}", "may write .object.spec.payer of"},
		"label":            {"labels are written by users", `{{index .trigger.metadata.labels "payer"}}`, ".trigger.metadata.labels"},
		"own namespace":    {"it is where the object is", "{{.trigger.metadata.namespace}}", ""},
		"namespace object": {"tenants do not write that", `{{index .namespaceObject.metadata.labels "payer"}}`, ""},
		"user":             {"it is who asks", "{{.user.name}}", ""},
		"both":             {"one of them is enough", "{{.trigger.metadata.namespace}}-{{.trigger.spec.team}}", ".trigger.spec.team"},
	} {
		p := &quotav1alpha1.ClaimCreationPolicy{}
		p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef = quotav1alpha1.ConsumerRef{Kind: "Organization", Name: tc.source}
		got := strings.Join(PayerFromObject(p), " ")
		if !strings.Contains(got, tc.want) || got != "" && tc.want == "" {
			t.Errorf("%s: %s: got %q, want %q", name, tc.reason, got, tc.want)
		}
	}
}
