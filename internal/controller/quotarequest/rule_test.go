package quotarequest

import (
	"context"
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// ledgers are stand-ins with a grant of one pod. The limits of all consumers add up to 7.
type ledgers struct{}

func (ledgers) View(_ context.Context, _ quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error {
	l := ledger.New()
	_, err := l.SetGrant(ledger.Grant{UID: "1", Namespace: "home", Name: "counts", Allowances: []ledger.Allowance{{ResourceType: "pods", Amount: 1}}})
	f(l)
	return err
}

func (ledgers) Total(string) ledger.Amount { return 7 }

// Amounts of one resource type with several dimensions add up, and promises count.
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
	for i, ask := range f.asks(request) {
		increase, limit := int64(9), int64(2)
		if ask.ResourceType == "pods" {
			increase, limit = 1, 4
		}
		if ask.Increase != increase || ask.Limit != limit || ask.Wanted != limit+increase || ask.Total != 7 {
			t.Errorf("ask %d is %+v, want an increase of %d on a limit of %d", i, ask, increase, limit)
		}
	}
}
