package quotarequest

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/policy"
)

// ledgers are stand-ins with a grant of one pod. The limits of all consumers add up to 7.
type ledgers struct{}

func (ledgers) View(_ context.Context, _ quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error {
	l := ledger.New()
	_, err := l.SetGrant(ledger.Grant{UID: "1", Namespace: "home", Name: "counts", Allowances: []ledger.Allowance{{ResourceType: "pods", Amount: 1}}})
	f(l)
	return err
}

func (ledgers) Total(string, ledger.Dimensions) ledger.Amount { return 7 }

// Amounts with other dimensions are apart, and promises count.
func TestFigures(t *testing.T) {
	r := &Reconciler{Ledgers: ledgers{}, Totals: ledgers{}}
	request := &quotav1alpha1.QuotaRequest{}
	for _, region := range []string{"a", "b", "c"} {
		request.Spec.Requests = append(request.Spec.Requests, quotav1alpha1.RequestedQuota{
			ResourceType: "maps", Increase: new(int64(3)), Dimensions: map[string]string{"region": region},
		})
	}
	request.Spec.Requests = append(request.Spec.Requests, quotav1alpha1.RequestedQuota{ResourceType: "pods", Limit: new(int64(5))})
	request.Namespace = "home"
	f, err := r.figuresFor(t.Context(), request, promises{
		"waits":  {{ResourceType: "maps", Increase: 2}, {ResourceType: "pods", Increase: 3}},
		"counts": {{ResourceType: "maps", Increase: 100}},
	})
	if err != nil {
		t.Fatal(err)
	}
	asks, err := f.asks()
	if err != nil {
		t.Fatal(err)
	}
	for i, ask := range asks {
		increase, limit := int64(3), int64(2)
		if ask.ResourceType == "pods" {
			increase, limit = 1, 4
		}
		if ask.Increase != increase || ask.Limit != limit || ask.Wanted != limit+increase || ask.Total != 7 {
			t.Errorf("ask %d is %+v, want an increase of %d on a limit of %d", i, ask, increase, limit)
		}
	}
}

// gpus are stand-ins for the ledger of a consumer with 10 GPUs of the cheap models, and 3 of any.
type gpus struct{ ledgers }

func (gpus) View(_ context.Context, _ quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error {
	cheap, err := ledger.NewSelector(ledger.Requirement{Key: "model", Operator: ledger.In, Values: []string{"a10", "l40s"}})
	if err != nil {
		return err
	}
	used, err := ledger.NewDimensions(map[string]string{"model": "l40s"})
	if err != nil {
		return err
	}
	l, err := ledger.Restore(ledger.Snapshot{
		Grants: []ledger.Grant{{UID: "1", Allowances: []ledger.Allowance{
			{ResourceType: "gpus", Selector: cheap, Amount: 10}, {ResourceType: "gpus", Amount: 3},
		}}},
		Observations: []ledger.Observation{{Kind: "machines", Demands: []ledger.Demand{{ResourceType: "gpus", Dimensions: used, Amount: 12, Objects: 1}}}},
	})
	if err == nil {
		f(l)
	}
	return err
}

// The figures of a request are those of its dimensions: quota of a cheap model says nothing about a dear one.
func TestFiguresOfDimensions(t *testing.T) {
	of := func(model string, increase int64) quotav1alpha1.RequestedQuota {
		asked := quotav1alpha1.RequestedQuota{ResourceType: "gpus", Increase: &increase}
		if model != "" {
			asked.Dimensions = map[string]string{"model": model}
		}
		return asked
	}
	for name, tt := range map[string]struct {
		asked  []quotav1alpha1.RequestedQuota
		want   policy.Ask
		reason string
	}{
		"dear":   {[]quotav1alpha1.RequestedQuota{of("h200", 2)}, policy.Ask{Increase: 2, Limit: 3, Wanted: 5, Used: 2, Available: 1}, "the cheap models take 2 of the 3 of any"},
		"shared": {[]quotav1alpha1.RequestedQuota{of("a10", 2)}, policy.Ask{Increase: 2, Limit: 13, Wanted: 15, Used: 12, Available: 1}, "another model uses the shared pool"},
		"any": {[]quotav1alpha1.RequestedQuota{of("", 2)}, policy.Ask{Increase: 2, Limit: 3, Wanted: 15, Used: 2, Available: 1},
			"each model may use it, so it is compared with what each may use, and adds to what the largest has"},
		"together": {[]quotav1alpha1.RequestedQuota{of("h200", 2), of("a10", 50), of("", 4)}, policy.Ask{Increase: 6, Limit: 3, Wanted: 9, Used: 2, Available: 1},
			"what is for any model is for the dear one, too"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Ledgers: gpus{}, Totals: gpus{}}
			f, err := r.figuresFor(t.Context(), &quotav1alpha1.QuotaRequest{Spec: quotav1alpha1.QuotaRequestSpec{Requests: tt.asked}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			asks, err := f.asks()
			if err != nil {
				t.Fatal(err)
			}
			tt.want.ResourceType, tt.want.Dimensions, tt.want.Total = "gpus", tt.asked[0].Dimensions, 7
			if diff := cmp.Diff(tt.want, asks[0]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// A ceiling for some dimensions bounds what a claim with them may use, and one without bounds the whole type.
func TestCeilings(t *testing.T) {
	ask := func(model string, increase int64) []quotav1alpha1.ApprovedIncrease {
		asked := quotav1alpha1.ApprovedIncrease{ResourceType: "gpus", Increase: increase}
		if model != "" {
			asked.Dimensions = map[string]string{"model": model}
		}
		return []quotav1alpha1.ApprovedIncrease{asked}
	}
	dear := map[string]string{"model": "h200"}
	for name, tt := range map[string]struct {
		ceiling   quotav1alpha1.QuotaRequestCeiling
		increases []quotav1alpha1.ApprovedIncrease
		want      string
	}{
		"within":          {quotav1alpha1.QuotaRequestCeiling{Dimensions: dear, Limit: 5}, ask("h200", 2), ""},
		"beyond":          {quotav1alpha1.QuotaRequestCeiling{Dimensions: dear, Limit: 5}, ask("h200", 3), "the limit of gpus (model=h200) is 3 units, and requests may raise it to 5 units at most: ask for 2 units more at most"},
		"for any model":   {quotav1alpha1.QuotaRequestCeiling{Dimensions: dear, Limit: 5}, ask("", 3), "gpus (model=h200)"},
		"another model":   {quotav1alpha1.QuotaRequestCeiling{Dimensions: dear, Limit: 5}, ask("a10", 30), ""},
		"the whole type":  {quotav1alpha1.QuotaRequestCeiling{Limit: 14}, ask("h200", 2), "the limit of gpus is 13"},
		"within the type": {quotav1alpha1.QuotaRequestCeiling{Limit: 15}, ask("h200", 2), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Ledgers: gpus{}, Totals: gpus{}, Catalog: catalog.New()}
			f, err := r.figuresFor(t.Context(), &quotav1alpha1.QuotaRequest{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			tt.ceiling.ResourceType = "gpus"
			all := policies{{Spec: quotav1alpha1.QuotaRequestPolicySpec{Ceilings: []quotav1alpha1.QuotaRequestCeiling{tt.ceiling}}}}
			rule, err := r.overCeiling(all, f, tt.increases)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if rule != nil {
				got = rule.Message
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
