package integration

import (
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// warnings remembers what the API server warns of.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.texts, "\n")
}

// TestPolicyThatIsNotReadyYetWarns creates policies that the registrations do not allow as they
// are: whoever creates one sees it at once, not in a status that nobody looks at.
func TestPolicyThatIsNotReadyYetWarns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := map[string]struct {
		reason string
		change func(*quotav1alpha1.ClaimCreationPolicy)
		want   string // empty: no warning
	}{
		"fits": {"nothing is wrong with it", func(*quotav1alpha1.ClaimCreationPolicy) {}, ""},
		"unregistered": {"the registration may come later", func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = "nobody/knows"
		}, `resource type "nobody/knows" has no active ResourceRegistration`},
		"consumer": {"Teams are granted no maps", func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Kind = "Team"
		}, "is granted to Organization.platform.example.com, not to Team"},
		"claiming kind": {"Secrets may not claim maps", func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Trigger.Resource.Kind = "Secret"
		}, "may not be claimed by Secret"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var heard warnings
			config := rest.CopyConfig(adminConfig)
			config.WarningHandler = &heard
			api, err := client.New(config, client.Options{Scheme: admin.Scheme()})
			if err != nil {
				t.Fatal(err)
			}
			policy := w.newPolicy("warned-of")
			tt.change(policy)
			if err := api.Create(w.ctx, policy, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			got := heard.String()
			if !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
				t.Errorf("%s: got the warnings %q, want %q", tt.reason, got, tt.want)
			}
		})
	}
}
