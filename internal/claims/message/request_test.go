package message

import (
	"math"
	"strings"
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// A denial names the command to ask for the missing quota.
func TestRequest(t *testing.T) {
	web := quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Project", Name: "web"}
	inNamespace := web
	inNamespace.Namespace = "ns"
	eu, us, odd := dimensions(t, "region", "eu"), dimensions(t, "region", "us"), dimensions(t, "region", "e'u")
	short := func(resourceType string, of ledger.Dimensions) ledger.Shortage {
		return ledger.Shortage{ResourceType: resourceType, Dimensions: of, Requested: 4, Used: 7, Limit: 8, Available: 1}
	}
	var many []ledger.Shortage
	for range requestedMax + 1 {
		many = append(many, short("a", ledger.Dimensions{}))
	}
	none := ledger.Dimensions{}
	for name, tt := range map[string]struct {
		reason    string
		consumer  quotav1alpha1.ConsumerRef
		shortages []ledger.Shortage
		want      string
	}{
		"one":             {"what is requested and not available", web, []ledger.Shortage{short("a", none)}, "a=+3 --for Project/web -n ns"},
		"two":             {"several types are one request", web, []ledger.Shortage{short("a", none), short("b/c", none)}, "a=+3 b/c=+3 --for Project/web -n ns"},
		"in a place":      {"the same dimensions are those of the request", web, []ledger.Shortage{short("a", eu), short("b", eu)}, "a=+3 b=+3 --for Project/web -n ns --dimension region=eu"},
		"in two places":   {"a request has one set of dimensions", web, []ledger.Shortage{short("a", eu), short("b", us)}, ""},
		"partly in one":   {"a request has one set of dimensions", web, []ledger.Shortage{short("a", eu), short("b", none)}, "b=+3 --for Project/web -n ns"},
		"excess":          {"the limit must rise above what is used", web, []ledger.Shortage{{ResourceType: "a", Requested: 1, Used: 10, Limit: 8}}, "a=+3 --for Project/web -n ns"},
		"ungranted":       {"nothing shows the consumer's group", web, []ledger.Shortage{{ResourceType: "a", Requested: 1}}, "a=+1 --for Project.example.com/web -n ns"},
		"ungranted in ns": {"nothing shows its namespace either", inNamespace, []ledger.Shortage{{ResourceType: "a", Requested: 1}}, "a=+1 --for Project.example.com/ns/web -n ns"},
		"too much":        {"no request can ask for that", web, []ledger.Shortage{{ResourceType: "a", Requested: math.MaxInt64, Used: 1, Limit: 1}}, ""},
		"odd":             {"a shell would read it otherwise", web, []ledger.Shortage{short("a", odd)}, ""},
		"many":            {"a request has at most so many types", web, many, ""},
		"nothing":         {"nothing is short", web, nil, ""},
	} {
		want := tt.want
		if want != "" {
			want = "bursar request " + want + ` --reason "..."`
		}
		if got := Request(tt.consumer, "ns", tt.shortages); got != want {
			t.Errorf("%s: %s: got %q, want %q", name, tt.reason, got, strings.TrimSpace(want))
		}
	}
}
