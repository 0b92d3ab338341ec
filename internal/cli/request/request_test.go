package request

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/usage"
)

func TestParseAmounts(t *testing.T) {
	for name, tt := range map[string]struct {
		argument string
		minimum  int64
		want     Amount
		failure  string
	}{
		"limit":          {"projects=10", 1, Amount{Type: "projects", Value: 10}, ""},
		"increase":       {"a.example.com/maps=+5", 1, Amount{Type: "a.example.com/maps", Value: 5, IsIncrease: true}, ""},
		"thousands":      {"maps=2k", 1, Amount{Type: "maps", Value: 2000}, ""},
		"binary":         {"memory=+5Gi", 1, Amount{Type: "memory", Value: 5 << 30, IsIncrease: true}, ""},
		"nothing":        {"maps=0", 0, Amount{Type: "maps", Value: 0}, ""},
		"largest":        {"maps=9223372036854775807", 1, Amount{Type: "maps", Value: 9223372036854775807}, ""},
		"no amount":      {"maps", 1, Amount{}, "is not TYPE=AMOUNT"},
		"no type":        {"=5", 1, Amount{}, "is not TYPE=AMOUNT"},
		"no number":      {"maps=many", 1, Amount{}, "is not an amount such as"},
		"two signs":      {"maps=++5", 1, Amount{}, "is not an amount such as"},
		"a part":         {"cpu=500m", 1, Amount{}, "not a whole number of base units: give one, such as 1"},
		"more than one":  {"cpu=1500m", 1, Amount{}, "not a whole number of base units: give one, such as 2"},
		"zero":           {"maps=0", 1, Amount{}, "too small: give at least 1"},
		"negative":       {"maps=-3", 0, Amount{}, "too small: give at least 0"},
		"too large":      {"maps=9223372036854775808", 1, Amount{}, "too large"},
		"much too large": {"maps=20E", 1, Amount{}, "too large"},
	} {
		got, err := ParseAmounts([]string{tt.argument}, tt.minimum)
		switch {
		case tt.failure != "":
			if err == nil || !strings.Contains(err.Error(), tt.failure) {
				t.Errorf("%s: got %v and %v, want %q", name, got, err, tt.failure)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case got[0] != tt.want:
			t.Errorf("%s: got %+v, want %+v", name, got[0], tt.want)
		}
	}
}

func TestParseAmountsWithUnits(t *testing.T) {
	for argument, want := range map[string]Amount{
		"cpus=+7cores": {Type: "cpus", IsIncrease: true, Text: "7cores"}, "cpus=7 cores": {Type: "cpus", Text: "7 cores"},
		"memory=1.5GiB": {Type: "memory", Text: "1.5GiB"}, "memory=5Gi": {Type: "memory", Value: 5 << 30}, "maps=+2": {Type: "maps", Value: 2, IsIncrease: true},
	} {
		if got, err := ParseAmountsWithUnits([]string{argument}, 1); err != nil || got[0] != want {
			t.Errorf("%s: got %+v and %v, want %+v", argument, got, err, want)
		}
	}
	for _, argument := range []string{"=7cores", "cpus=cores", "cpus", "cpus=-7cores", "cpus=++7cores"} {
		if got, err := ParseAmountsWithUnits([]string{argument}, 1); err == nil {
			t.Errorf("%s: got %+v, want an error", argument, got)
		}
	}
}

func organization(name string) quotav1alpha1.ConsumerRef {
	return quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Organization", Name: name}
}

// shownOf are EffectiveResourceGrants of a type each.
func shownOf(consumers ...quotav1alpha1.ConsumerRef) *shown {
	s := &shown{namespace: "ns"}
	for _, consumer := range consumers {
		grant := quotav1alpha1.EffectiveResourceGrant{}
		grant.Spec.ConsumerRef, grant.Spec.ResourceType = consumer, "example.com/maps"
		s.grants = append(s.grants, grant, grant)
	}
	return s
}

func TestConsumer(t *testing.T) {
	acme, shop := organization("acme"), organization("shop")
	inNamespace := quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Project", Name: "web", Namespace: "ns"}
	other := quotav1alpha1.ConsumerRef{APIGroup: "other.com", Kind: "Organization", Name: "acme"}
	for name, tt := range map[string]struct {
		shown   *shown
		named   string
		want    quotav1alpha1.ConsumerRef
		failure string
	}{
		"the only one":          {shownOf(acme), "", acme, ""},
		"any case":              {shownOf(acme, shop), "organization/shop", shop, ""},
		"in a namespace":        {shownOf(acme, inNamespace), "project/web", inNamespace, ""},
		"in full":               {shownOf(), "Organization.example.com/acme", acme, ""},
		"in full, namespaced":   {shownOf(), "Project.example.com/ns/web", inNamespace, ""},
		"core group":            {shownOf(), "Namespace./web", quotav1alpha1.ConsumerRef{Kind: "Namespace", Name: "web"}, ""},
		"in full corrects case": {shownOf(acme), "organization.example.com/acme", acme, ""},
		"one of two groups":     {shownOf(acme, other), "organization.other.com/acme", other, ""},
		"which of two":          {shownOf(acme, shop), "", acme, "namespace ns shows the quota of Organization/acme, Organization/shop"},
		"which of two groups":   {shownOf(acme, other), "organization/acme", acme, "choose one of Organization.example.com/acme, Organization.other.com/acme"},
		"nobody":                {shownOf(), "", acme, "shows no quota"},
		"unknown":               {shownOf(acme), "organization/amce", acme, "namespace ns shows the quota of Organization/acme; name another in full"},
		"no name":               {shownOf(acme), "acme", acme, "is not KIND/NAME"},
		"empty name":            {shownOf(acme), "organization/", acme, "is not KIND/NAME"},
		"forbidden":             {&shown{namespace: "ns", isForbidden: true}, "", acme, "you may not see the quota in namespace"},
	} {
		got, err := tt.shown.consumer(tt.named)
		switch {
		case tt.failure != "":
			if err == nil || !strings.Contains(err.Error(), tt.failure) {
				t.Errorf("%s: got %v and %v, want %q", name, got, err, tt.failure)
			}
		case err != nil || got != tt.want:
			t.Errorf("%s: got %+v and %v, want %+v", name, got, err, tt.want)
		}
	}
}

func TestTypeNamed(t *testing.T) {
	known := []string{"a.com/maps", "b.com/maps", "a.com/pods", "plain"}
	for name, tt := range map[string]struct{ named, want, failure string }{
		"whole":     {"b.com/maps", "b.com/maps", ""},
		"short":     {"pods", "a.com/pods", ""},
		"plain":     {"plain", "plain", ""},
		"unknown":   {"c.com/x", "c.com/x", ""},
		"ambiguous": {"maps", "", "name one of a.com/maps, b.com/maps"},
	} {
		got, err := TypeNamed(tt.named, known)
		if got != tt.want || (err == nil) != (tt.failure == "") || err != nil && !strings.Contains(err.Error(), tt.failure) {
			t.Errorf("%s: got %q and %v, want %q and %q", name, got, err, tt.want, tt.failure)
		}
	}
}

func TestGeneratedName(t *testing.T) {
	for name, want := range map[string]string{
		"acme": "acme-", "a.b": "a-b-", "-.-": "request-", strings.Repeat("x", 253): strings.Repeat("x", 57) + "-", "Große": "gro-e-",
	} {
		got := generatedName(name)
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if errs := validation.IsDNS1123Label(got + "abcde"); len(errs) > 0 {
			t.Errorf("%s: %s is no name: %v", name, got, errs)
		}
	}
}

// A denial has the command to ask for the missing amounts.
func TestParseDenial(t *testing.T) {
	const text = `Error from server (Forbidden): admission webhook "x" denied the request: exceeded quota: ... To see its quota: kubectl get ergrant -n ns; ` +
		`to ask for more: bursar request a.com/maps=+2 a.com/pods=+1073741824 --for Organization/acme
 -n ns --dimension region=eu --reason "..."`
	got, err := ParseDenial(text + "\n" + text)
	want := Options{
		Namespace: "ns", For: "Organization/acme", Amounts: []Amount{{Type: "a.com/maps", Value: 2, IsIncrease: true}, {Type: "a.com/pods", Value: 1 << 30, IsIncrease: true}}, Dimensions: map[string]string{"region": "eu"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("got %v (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]string{
		"connection refused": "no denial in",
		text + ` bursar request x=+1 --for Organization/shop -n ns --reason "..."`: "names several requests",
		`bursar request x=many --for Organization/shop -n ns --reason "..."`:       "is not an amount",
	} {
		if _, err := ParseDenial(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// someRequest asks for a limit and an increase.
func someRequest(state string) *quotav1alpha1.QuotaRequest {
	r := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "acme-1", CreationTimestamp: metav1.NewTime(time.Unix(0, 0))}}
	r.Spec.ConsumerRef, r.Spec.Requester = organization("acme"), &quotav1alpha1.RequestUser{Username: "tom"}
	r.Spec.Requests = []quotav1alpha1.RequestedQuota{
		{ResourceType: "a.com/maps", Limit: new(int64(10))}, {ResourceType: "a.com/pods", Increase: new(int64(5)), Dimensions: map[string]string{"region": "eu"}},
	}
	if state != "" {
		r.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionApproved, Status: metav1.ConditionUnknown, Reason: state, Message: "so it is"}}
	}
	return r
}

func TestDecided(t *testing.T) {
	for name, tt := range map[string]struct{ arguments, want, failure string }{
		"all":                   {"", "", ""},
		"less of one":           {"maps=4", "a.com/maps 4, a.com/pods 5", ""},
		"nothing of one":        {"a.com/pods=0", "a.com/maps 10, a.com/pods 0", ""},
		"an increase":           {"pods=+3 maps=9", "a.com/maps 9, a.com/pods 3", ""},
		"an increase of limits": {"maps=+3", "", "asks for a limit of a.com/maps"},
		"something else":        {"gpus=3", "", "asks for no gpus, but for maps=10, pods=+5 (region=eu)"},
		"in its unit":           {"pods=+0.25dozen", "a.com/maps 10, a.com/pods 3", ""},
		"in another unit":       {"pods=+2GiB", "", "pods=2GiB: "},
		"in an unknown unit":    {"maps=4maps", "", "the unit of maps is not known"},
		"twice":                 {"maps=3 a.com/maps=4", "", "named twice"},
	} {
		amounts, err := ParseAmountsWithUnits(strings.Fields(tt.arguments), 0)
		if err != nil {
			t.Fatal(err)
		}
		decided, err := decided(someRequest(""), amounts, map[string]usage.Unit{"a.com/pods": {Name: "dozen", Factor: 12}})
		var got []string
		for _, d := range decided {
			got = append(got, d.ResourceType+" "+fmt.Sprint(d.Amount))
		}
		if text := strings.Join(got, ", "); text != tt.want || (err == nil) != (tt.failure == "") || err != nil && !strings.Contains(err.Error(), tt.failure) {
			t.Errorf("%s: got %q and %v, want %q and %q", name, text, err, tt.want, tt.failure)
		}
	}
}

func TestDecisionText(t *testing.T) {
	approval := &quotav1alpha1.QuotaDecision{Spec: quotav1alpha1.QuotaDecisionSpec{
		Decision: quotav1alpha1.DecisionApprove, Until: &metav1.Time{Time: time.Unix(0, 0)}, Amounts: []quotav1alpha1.DecidedQuota{{ResourceType: "a.com/maps", Amount: 4}, {ResourceType: "a.com/pods", Amount: 5}},
	}}
	request := someRequest("Pending")
	request.Status.ApprovalsNeeded, request.Status.Decisions = 2, []quotav1alpha1.RequestDecision{{Decision: quotav1alpha1.DecisionApprove}}
	want := "You approved QuotaRequest ns/acme-1: maps=4, pods=+2.5 dozens (asked: maps=10, pods=+5 (region=eu)) until 1970-01-01T00:00:00Z.\n" +
		"It is Pending: so it is.\n1 more approval is needed.\n"
	if diff := cmp.Diff(want, DecisionText(approval, request, map[string]usage.Unit{"a.com/pods": {Name: "dozen", Factor: 2}})); diff != "" {
		t.Errorf("an approval (-want +got):\n%s", diff)
	}
}

func TestPrintList(t *testing.T) {
	list := &quotav1alpha1.QuotaRequestList{Items: []quotav1alpha1.QuotaRequest{*someRequest("Pending"), *someRequest("")}}
	list.Items[1].Status.Asks, list.Items[1].Spec.Requester = "maps=10 maps", nil
	var text strings.Builder
	if err := PrintList(&text, list, "", true, time.Unix(300, 0)); err != nil {
		t.Fatal(err)
	}
	want := `NAMESPACE NAME STATE CONSUMER ASKS REQUESTER AGE MESSAGE
ns acme-1 Pending Organization/acme maps=10, pods=+5 (region=eu) tom 5m so it is
ns acme-1 - Organization/acme maps=10 maps - 5m
`
	var got strings.Builder
	for line := range strings.Lines(text.String()) {
		got.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
	text.Reset()
	if err := PrintList(&text, &quotav1alpha1.QuotaRequestList{}, "json", false, time.Now()); err != nil || !strings.Contains(text.String(), `"items": []`) {
		t.Errorf("got %s and %v for an empty list", text.String(), err)
	}
}

func TestFilter(t *testing.T) {
	for name, tt := range map[string]struct {
		filter Filter
		want   string
	}{
		"undecided": {Filter{}, " Pending"},
		"a state":   {Filter{State: "Denied"}, "Denied"},
		"all":       {Filter{IsAll: true}, " Pending Approved Denied"},
	} {
		var got []string
		for _, state := range []string{"", "Pending", "Approved", "Denied"} {
			if tt.filter.selects(someRequest(state)) {
				got = append(got, state)
			}
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: got %q, want %q", name, text, tt.want)
		}
		if text := tt.filter.EmptyText(); !strings.Contains(text, "bursar request") {
			t.Errorf("%s: %q names no next step", name, text)
		}
	}
}

// The names of webhooks do not help users.
func TestFailure(t *testing.T) {
	for _, text := range []string{
		`admission webhook "validate.quota.miloapis.com" denied the request: it is one's own`, `quotadecisions.quota.miloapis.com "x-abcde" is forbidden: it is one's own`,
		`quotadecisions.quota.miloapis.com is forbidden: it is one's own`, `QuotaDecision.quota.miloapis.com "x-abcde" is invalid: it is one's own`, "it is one's own",
	} {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "quotadecisions"}, "x", nil)
		err.ErrStatus.Message = text
		if got := failure("approve QuotaRequest ns/x", err); got.Error() != "approve QuotaRequest ns/x: it is one's own" || !apierrors.IsForbidden(got) {
			t.Errorf("%s becomes %v", text, got)
		}
	}
}
