package quotausage_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

const figures, allClaims = "effectiveresourcegrants " + home + " ", "resourceclaims  "

// textOf has the names in an answer in order, and the hidden objects.
func textOf(status *quotav1alpha1.QuotaUsageStatus) string {
	var names []string
	for i := range status.Objects {
		names = append(names, status.Objects[i].ResourceRef.Name)
	}
	if hidden := status.Hidden; hidden != nil {
		names = append(names, fmt.Sprintf("and %d of %d", hidden.Objects, hidden.Amounts[0].Amount))
	}
	return strings.Join(names, " ")
}

// A cluster-scoped object is visible to those who see the claims where the quota of its consumer is.
func TestSightOfObjects(t *testing.T) {
	everything := "consumerledgers  " + naming.Ledger(acme)
	ofAcme := quotav1alpha1.QuotaUsageSpec{ConsumerRef: &acme, ResourceType: "machines"}
	clusterScoped := quotav1alpha1.QuotaUsageSpec{ResourceRef: &quotav1alpha1.UnversionedObjectReference{APIGroup: machines.Group, Kind: machines.Kind, Name: "m2"}}
	const forbidden = "forbidden"
	for name, tt := range map[string]struct {
		reason  string
		granted []string
		spec    quotav1alpha1.QuotaUsageSpec
		want    string
	}{
		"auditor":        {"the ledger is everything", []string{everything}, ofAcme, "m2 m1 m0"},
		"all claims":     {"no place is hidden", []string{figures, allClaims}, ofAcme, "m2 m1 m0"},
		"figures":        {"sums alone", []string{figures}, ofAcme, "and 3 of 6"},
		"one namespace":  {"the rest is summed up", []string{figures, "resourceclaims team-1 "}, ofAcme, "m1 and 2 of 4"},
		"home":           {"cluster-scoped objects are at home there", []string{figures, "resourceclaims " + home + " "}, ofAcme, "m2 and 2 of 3"},
		"claims only":    {"the consumer is none of their business", []string{"resourceclaims team-1 "}, ofAcme, forbidden},
		"object at home": {"one object", []string{"resourceclaims " + home + " "}, clusterScoped, "m2"},
		"object":         {"its existence is hidden, too", nil, clusterScoped, ""},
		"all consumers":  {"figures of one are not those of all", []string{figures, "resourceclaims team-1 "}, quotav1alpha1.QuotaUsageSpec{}, forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld([]string{"team-0", "team-1", ""}, tt.granted...)

			response, status := w.ask(t, tt.spec)

			got := forbidden
			switch {
			case status != nil:
				got = textOf(status)
			case response.Result.Code != http.StatusForbidden:
				t.Fatalf("got %+v", response.Result)
			}
			if got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
			}
		})
	}
}

// An answer asks about a bounded number of namespaces, first about that of the question. The rest counts as hidden,
// with a warning.
func TestLookupsAreBounded(t *testing.T) {
	var namespaces []string
	for n := range 200 {
		namespaces = append(namespaces, fmt.Sprintf("a-%03d", n))
	}
	w := newWorld(append(namespaces, "team-1"), figures, "resourceclaims team-1 ", "resourceclaims a-199 ")
	response, status := w.ask(t, quotav1alpha1.QuotaUsageSpec{ConsumerRef: &acme})
	if got := textOf(status); got != "m200 and 200 of 20100" || len(response.Warnings) != 1 || w.asked > 60 {
		t.Errorf("got %q with the warnings %q after %d questions", got, response.Warnings, w.asked)
	}
	if _, status := w.ask(t, quotav1alpha1.QuotaUsageSpec{Namespace: "a-199"}); textOf(status) != "m199" {
		t.Errorf("about one namespace the answer is %q", textOf(status))
	}
}

// An answer names the kinds that it lacks, and there is none without policies or permissions.
func TestWhatAnAnswerLacks(t *testing.T) {
	w := newWorld([]string{"team-1"}, figures, allClaims)
	w.kinds = []schema.GroupVersionKind{{Group: "apps", Version: "v1", Kind: "Deployment"}}
	if _, status := w.ask(t, quotav1alpha1.QuotaUsageSpec{ConsumerRef: &acme}); !cmp.Equal(status.Uncounted, []string{"Deployment.apps"}) || len(status.Objects) != 1 {
		t.Errorf("the answer is %+v", status)
	}

	w.err = errors.New("the API server is away")
	if response, status := w.ask(t, quotav1alpha1.QuotaUsageSpec{ConsumerRef: &acme}); status != nil || response.Result.Code != http.StatusServiceUnavailable {
		t.Errorf("without permissions the answer is %+v, %+v", response.Result, status)
	}
	w.err, w.loading = nil, true
	if response, status := w.ask(t, quotav1alpha1.QuotaUsageSpec{ConsumerRef: &acme}); status != nil || response.Result.Details.RetryAfterSeconds == 0 {
		t.Errorf("while the policies are loaded the answer is %+v, %+v", response.Result, status)
	}
}

func TestInvalidQuestions(t *testing.T) {
	object := &quotav1alpha1.UnversionedObjectReference{Kind: "Machine", Name: "m"}
	for reason, spec := range map[string]quotav1alpha1.QuotaUsageSpec{
		"a consumer without a name": {ConsumerRef: &quotav1alpha1.ConsumerRef{Kind: "Organization"}},
		"an object without a kind":  {ResourceRef: &quotav1alpha1.UnversionedObjectReference{Name: "m"}},
		"object and namespace":      {ResourceRef: object, Namespace: "team-1"},
		"a negative limit":          {Limit: -1},
		"a large limit":             {Limit: quotav1alpha1.UsageLimitMax + 1},
		"a long type":               {ResourceType: strings.Repeat("t", 254)},
		"a long token":              {Continue: strings.Repeat("t", quotav1alpha1.UsageContinueMax+1)},
		"no token":                  {Continue: "eyJ9"},
	} {
		if response, _ := newWorld(nil, figures, allClaims).ask(t, spec); response.Result == nil || response.Result.Code != http.StatusBadRequest {
			t.Errorf("%s: got %+v", reason, response)
		}
	}
}

// The longest names fit into a token.
func TestLongestToken(t *testing.T) {
	w := newWorld([]string{strings.Repeat("n", 63), strings.Repeat("n", 63)}, figures, allClaims)
	_, status := w.ask(t, quotav1alpha1.QuotaUsageSpec{ConsumerRef: &acme, Limit: 1})
	long := 253 + 253 + 253 + 63 + 63 + 63 // names of object and consumer, groups, kinds and namespaces, at most
	if most := len(status.Continue) + (long*4)/3; status.Continue == "" || most > quotav1alpha1.UsageContinueMax {
		t.Errorf("a token may have %d bytes, and at most %d are allowed", most, quotav1alpha1.UsageContinueMax)
	}
}
