package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// warnings remembers the warnings of the API server.
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

// listening returns a client, and the API server's warnings to it.
func listening(t *testing.T) (client.Client, *warnings) {
	t.Helper()
	heard := &warnings{}
	config := rest.CopyConfig(started.Config)
	config.WarningHandler = heard
	api, err := client.New(config, client.Options{Scheme: admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return api, heard
}

// deleteListening deletes an object and returns the API server's warnings.
func (w *world) deleteListening(object client.Object, options ...client.DeleteOption) string {
	w.Helper()
	api, heard := listening(w.T)
	if err := api.Delete(w.ctx, object, options...); err != nil {
		w.Fatalf("delete %T %s: %v", object, object.GetName(), err)
	}
	return heard.String()
}

// A deleted policy leaves its claims, perhaps unexpectedly.
func TestDeletedPolicyWarnsOfItsClaims(t *testing.T) {
	t.Parallel()
	w := newClaimedWorld(t, 2)
	first, second := w.configMap("a"), w.configMap("b")
	w.mustCreate(first)
	w.mustCreate(second)
	w.waitClaims(first.UID, second.UID)
	policy := &quotav1alpha1.ClaimCreationPolicy{}
	policy.Name = w.name
	want := "2 claims of this policy stay, and keep their quota, until the objects or the claims are deleted; to delete the claims: " +
		"kubectl delete resourceclaims.quota.miloapis.com --all-namespaces -l quota.miloapis.com/policy=" + w.name
	eventually(t, func() error { // the watch shows a new claim a moment later
		if got := w.deleteListening(policy, client.DryRunAll); got != want {
			return fmt.Errorf("got the warnings %q, want %q", got, want)
		}
		return nil
	})
	if got := w.deleteListening(policy); got != want {
		t.Errorf("got the warnings %q, want %q", got, want)
	}
}

// A policy without claims that is deleted or disabled frees the quota of all its objects at once.
func TestCountedPolicyWarnsThatObjectsStopCounting(t *testing.T) {
	t.Parallel()
	w := newCountedWorld(t, 2, nil)
	w.mustCreate(w.configMap("a"))
	w.mustCreate(w.configMap("b"))
	w.wantBucket(2, 2, 0, 2)
	want := "ClaimCreationPolicy " + w.name + ": 2 objects of 1 consumer no longer count from now on, and their quota is free at once"

	policy := &quotav1alpha1.ClaimCreationPolicy{}
	policy.Name = w.name
	if got := w.deleteListening(policy, client.DryRunAll); got != want {
		t.Errorf("a deletion: got the warnings %q, want %q", got, want)
	}
	if got := w.changeListening(policy, func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.Disabled = true }); got != want {
		t.Errorf("disabled: got the warnings %q, want %q", got, want)
	}
	got := w.changeListening(policy, func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.EnforcementMode = quotav1alpha1.EnforcementModeWarn })
	if strings.Contains(got, "no longer count") {
		t.Errorf("another mode: got the warnings %q, want none of objects that do not count", got)
	}
}

// A policy without claims counts all existing objects at once. Who writes it is warned of consumers over their limit.
func TestCountedPolicyWarnsOfItsRecount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 5)
	for _, name := range []string{"a", "b"} {
		w.mustCreate(w.sized(name, 2))
	}
	policy := w.newPolicy(w.name)
	policy.Spec.Claims = quotav1alpha1.ClaimsModeNone
	costs(policy)
	create := func(amount string) string {
		api, heard := listening(t)
		changed := policy.DeepCopy()
		changed.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = amount
		must(t, api.Create(w.ctx, changed, client.DryRunAll))
		return heard.String()
	}
	wantSaid := func(when, want string, get func() string) {
		t.Helper()
		eventually(t, func() error { // a busy server reports a lack of time to try the policy
			if got := get(); !strings.Contains(got, want) {
				return fmt.Errorf("%s: got the warnings %q, want %q", when, got, want)
			}
			return nil
		})
	}
	over := func(used int) string {
		return fmt.Sprintf("2 objects of 1 consumer would count by this policy; 1 consumer would be over the limit: Organization %s with %d maps of 5 maps", w.name, used)
	}

	wantSaid("a new policy", "2 objects of 1 consumer would count by this policy, all within their limits", func() string { return create("int(trigger.data.size)") })
	wantSaid("a larger new policy", over(8), func() string { return create("2 * int(trigger.data.size)") })

	w.countedPolicy(costs)
	w.wantBucket(5, 4, 1, 2)
	wantSaid("a changed policy", over(12), func() string {
		return w.changeListening(policy, func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = "3 * int(trigger.data.size)"
		})
	})
}

// changeListening changes a policy without storing that, and returns the API server's warnings.
func (w *world) changeListening(policy *quotav1alpha1.ClaimCreationPolicy, change func(*quotav1alpha1.ClaimCreationPolicy)) string {
	w.Helper()
	api, heard := listening(w.T)
	changed := &quotav1alpha1.ClaimCreationPolicy{}
	must(w, api.Get(w.ctx, client.ObjectKeyFromObject(policy), changed))
	change(changed)
	must(w, api.Update(w.ctx, changed, client.DryRunAll))
	return heard.String()
}

// Deleting a grant in use warns that the consumer keeps its objects.
func TestDeletedGrantWarnsOfUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	grant := w.grant("base", 1)
	w.policy(w.name, nil)
	if got := w.deleteListening(grant, client.DryRunAll); got != "" {
		t.Errorf("got the warnings %q of a grant that nobody uses, want none", got)
	}
	w.mustCreate(w.configMap("a"))
	want := "becomes 0 maps, below the 1 map in use: Bursar takes nothing back, and grants nothing new until usage is below the limit"
	eventually(t, func() error {
		if got := w.deleteListening(grant, client.DryRunAll); !strings.HasSuffix(got, want) {
			return fmt.Errorf("got the warnings %q, want one that ends with %q", got, want)
		}
		return nil
	})
	// Without the figure: while the policies of other tests change, the map may count beside its request for a moment.
	want = "in use: Bursar takes nothing back, and grants nothing new until usage is below the limit"
	if got := w.deleteListening(grant); !strings.HasSuffix(got, want) {
		t.Errorf("got the warnings %q, want one that ends with %q", got, want)
	}
}

// TestPolicyThatIsNotReadyYetWarns creates policies in conflict with the registrations. Their authors see it at once,
// rather than in an unread status.
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
		"standard labels": {"manifests may spell out what Bursar sets", func(p *quotav1alpha1.ClaimCreationPolicy) {
			metadata := &p.Spec.Target.ResourceClaimTemplate.Metadata
			metadata.Labels = map[string]string{quotav1alpha1.LabelAutoCreated: "true", quotav1alpha1.LabelPolicy: p.Name, quotav1alpha1.LabelGVK: "v1.ConfigMap"}
			metadata.Annotations = map[string]string{quotav1alpha1.AnnotationResourceName: "{{ .trigger.metadata.name }}"}
		}, ""},
		"another policy's label": {"it is not taken over", func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Target.ResourceClaimTemplate.Metadata.Labels = map[string]string{quotav1alpha1.LabelPolicy: "lab5"}
		}, `spec.target.resourceClaimTemplate.metadata.labels[quota.miloapis.com/policy]: "lab5" has no effect: Bursar sets this key to "warned-of"`},
		"creation time": {"nobody knows it yet", func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Target.ResourceClaimTemplate.Metadata.Annotations = map[string]string{quotav1alpha1.AnnotationCreatedAt: "now"}
		}, `annotations[quota.miloapis.com/created-at]: "now" has no effect: Bursar sets this key itself`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			eventually(t, func() error { // a busy server reports a lack of time to try the policy
				api, heard := listening(t)
				policy := w.newPolicy("warned-of")
				tt.change(policy)
				must(t, api.Create(w.ctx, policy, client.DryRunAll))
				got := heard.String()
				if !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
					return fmt.Errorf("%s: got the warnings %q, want %q", tt.reason, got, tt.want)
				}
				return nil
			})
		})
	}
}
