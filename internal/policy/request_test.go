package policy

import (
	"strings"
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestRequestPolicy(t *testing.T) {
	in := RequestInput{
		Request: map[string]any{"spec": map[string]any{"requester": map[string]any{"username": "tom"}}},
		Asks: []Ask{
			{ResourceType: "maps", Increase: 3, Limit: 2, Wanted: 5, Used: 1, Total: 100, Dimensions: map[string]string{"region": "a"}},
			{ResourceType: "pods", Increase: 1, Wanted: 1},
		},
	}
	for condition, want := range map[string]string{
		"":                           "holds",
		"asks.all(a, a.wanted <= 5)": "holds",
		"asks.all(a, a.wanted <= 4)": "does not hold",
		"asks.exists(a, a.increase * 100 > a.total && a.limit + a.used == 3)":   "holds",
		"asks[0].dimensions['region'] == 'a' && asks[0].resourceType == 'maps'": "holds",
		"request.spec.requester.username == 'tom' && consumer == null":          "holds",
		"consumer.metadata.labels.tier == 'gold'":                               "spec.rules[0].condition",
		"asks.all(a, a.wantd <= 5)":                                             "undefined field 'wantd'",
		"object.size() > 1":                                                     "sees request, consumer and asks",
		"asks.size()":                                                           "must yield bool",
	} {
		t.Run(condition, func(t *testing.T) {
			policy := &quotav1alpha1.QuotaRequestPolicy{}
			policy.Spec.Rules = []quotav1alpha1.QuotaRequestRule{{Name: "r", Condition: condition}}
			compiled, errs := CompileRequest(policy)
			if len(errs) > 0 {
				if !strings.Contains(errs.ToAggregate().Error(), want) {
					t.Errorf("got %v, want %s", errs, want)
				}
				return
			}
			got := "does not hold"
			switch i, err := compiled.Rule(t.Context(), in); {
			case err != nil:
				got = err.Error()
			case i == 0:
				got = "holds"
			}
			if !strings.Contains(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
			if compiled.UsesConsumer() != strings.Contains(condition, "consumer") {
				t.Errorf("it uses the consumer: %t", compiled.UsesConsumer())
			}
		})
	}
}
