package why

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

func TestNobodyPays(t *testing.T) {
	for name, tt := range map[string]struct {
		reason string
		e      Explanation
		want   string
	}{
		"free":       {"no policy is for it", Explanation{}, "It needs no quota."},
		"left out":   {"", Explanation{Policies: []Policy{{Matches: "no"}}}, "It needs no quota."},
		"fails":      {"nobody knows what it would ask", Explanation{Policies: []Policy{{isFailed: true}}}, "The quota that it needs is unknown, because a policy fails on it."},
		"denied":     {"something does ask for it", Explanation{isDenied: true}, "No policy that you may read asks quota for it; the answer of the API server gives the reason."},
		"unreached":  {"nobody has decided", Explanation{isDenied: true, isUnreached: true}, "The quota that it needs is unknown until Bursar answers."},
		"unreadable": {"", Explanation{MayNotReadPolicies: true}, "You may not read the policies, and no claim that you may see is for it: ask an administrator whether it needs quota."},
	} {
		if got := tt.e.noPayment(); got != tt.want {
			t.Errorf("%s: %s: got %q, want %q", name, tt.reason, got, tt.want)
		}
	}
}

// Errors about something else lead to a next step as well.
func TestOtherErrors(t *testing.T) {
	for text, want := range map[string]string{
		`Internal error occurred: failed calling webhook "enforce.quota.miloapis.com": failed to call webhook`:  unreached,
		`Internal error occurred: failed calling webhook "other.example.com": failed to call webhook`:           otherErrors[0].meaning,
		`ClaimCreationPolicy apps cannot be applied to this object: no such key`:                                otherErrors[1].meaning,
		`exceeded ResourceQuotaAllocation: acme`:                                                                otherErrors[2].meaning,
		`exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`:                                   otherErrors[7].meaning,
		`requests in flight hold 2 Pods of the Pod quota of Project web: nobody has seen their effect yet`:      otherErrors[4].meaning,
		`requests in flight by user tom already hold quota of Project web: the rest stays free for others`:      otherErrors[5].meaning,
		`earlier requests by user tom failed while others were refused quota of Project web: for a few minutes`: otherErrors[6].meaning,
		`connection refused`: "this names no consumer with a lack of quota; docs/reference/messages.md lists Bursar's messages and what to do",
	} {
		if _, err := (&Reader{}).Denial(t.Context(), text); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// An explanation has what people call a resource type, also for users without the right to read registrations.
func TestAboutResourceTypes(t *testing.T) {
	display := &quotav1alpha1.DisplayedQuota{Name: "vCPUs", Description: "CPU of\nall machines", Owner: "compute.example.com"}
	shown := &quotav1alpha1.EffectiveResourceGrant{Status: quotav1alpha1.EffectiveResourceGrantStatus{Display: display}}
	pay := Payment{Consumer: quotav1alpha1.ConsumerRef{Kind: "Project", Name: "web"}}
	reader := &Reader{registrations: catalog.New()}
	for _, of := range []struct {
		name  string
		shown *quotav1alpha1.EffectiveResourceGrant
	}{{"cpu", shown}, {"plain", nil}} {
		pay.Types = append(pay.Types, reader.typeOf(&pay, quotav1alpha1.ResourceRequest{ResourceType: of.name}, of.shown))
	}
	var got strings.Builder
	if err := (&Explanation{Object: "the error", Payments: []Payment{pay}}).Print(&got, ""); err != nil {
		t.Fatal(err)
	}
	var about []string
	for line := range strings.Lines(got.String()) {
		if strings.HasPrefix(line, "About ") {
			about = append(about, line)
		}
	}
	if diff := cmp.Diff([]string{"About cpu: vCPUs; CPU of all machines; part of compute.example.com\n"}, about); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
