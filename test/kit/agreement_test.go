package kit

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// stored is an API server with the objects of a test.
type stored struct {
	client.Reader
	claims  []quotav1alpha1.ResourceClaim
	ledgers []quotav1alpha1.ConsumerLedger
	buckets []quotav1alpha1.AllowanceBucket
}

// List implements [client.Reader].
func (s *stored) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *quotav1alpha1.ResourceClaimList:
		list.Items = s.claims
	case *quotav1alpha1.ConsumerLedgerList:
		list.Items = s.ledgers
	case *quotav1alpha1.AllowanceBucketList:
		list.Items = s.buckets
	default:
		return fmt.Errorf("%T is not expected", list)
	}
	return nil
}

func claim(uid, consumer string, amount int64) quotav1alpha1.ResourceClaim {
	return quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: uid, Annotations: map[string]string{quotav1alpha1.AnnotationResourceUID: uid}},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: quotav1alpha1.ConsumerRef{Name: consumer},
			Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: "things", Amount: amount}},
		},
		Status: quotav1alpha1.ResourceClaimStatus{Conditions: []metav1.Condition{{Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionTrue}}},
	}
}

// agreeing is a world of two objects. acme pays 2 and 3 for them.
func agreeing() (Agreement, *stored) {
	a := Agreement{
		Limits:  Charges{"acme": {"things": 10}},
		Objects: map[types.UID]Charges{"one": {"acme": {"things": 2}}, "two": {"acme": {"things": 3}}},
	}
	acme := quotav1alpha1.ConsumerRef{Name: "acme"}
	return a, &stored{
		claims: []quotav1alpha1.ResourceClaim{claim("one", "acme", 2), claim("two", "acme", 3), claim("three", "other", 4)},
		ledgers: []quotav1alpha1.ConsumerLedger{{Spec: quotav1alpha1.ConsumerLedgerSpec{
			ConsumerRef: acme, Observations: []quotav1alpha1.LedgerObservation{{
				Kind: "things", Demands: []quotav1alpha1.LedgerDemand{{ResourceType: "things", Amount: 5, Objects: 2}},
			}},
		}}},
		buckets: []quotav1alpha1.AllowanceBucket{{
			Spec:   quotav1alpha1.AllowanceBucketSpec{ConsumerRef: acme, ResourceType: "things"},
			Status: quotav1alpha1.AllowanceBucketStatus{Limit: 10, Allocated: 5, Available: 5, ClaimCount: 2},
		}},
	}
}

// TestAgreementFindsEachDifference makes one thing differ at a time.
func TestAgreementFindsEachDifference(t *testing.T) {
	tests := map[string]struct {
		change func(*Agreement, *stored)
		want   string
	}{
		"nothing":           {func(*Agreement, *stored) {}, ""},
		"claim missing":     {func(_ *Agreement, s *stored) { s.claims = s.claims[1:] }, "1 claims are missing"},
		"claim twice":       {func(_ *Agreement, s *stored) { s.claims = append(s.claims, s.claims[0]) }, "is the second of its object"},
		"claim waits":       {func(_ *Agreement, s *stored) { s.claims[0].Status.Conditions = nil }, "granted false"},
		"claim of nothing":  {func(_ *Agreement, s *stored) { s.claims = append(s.claims, claim("gone", "acme", 1)) }, "does not exist"},
		"claim of less":     {func(_ *Agreement, s *stored) { s.claims[0].Spec.Requests[0].Amount = 1 }, "want map[things:2]"},
		"claim deleted":     {func(_ *Agreement, s *stored) { s.claims[0].DeletionTimestamp = &metav1.Time{} }, "deleted 0001"},
		"direct claim":      {func(_ *Agreement, s *stored) { s.claims = append(s.claims, claim("", "acme", 1)) }, "is the second of its object"},
		"direct, uncounted": {func(a *Agreement, s *stored) { a.Direct = true; s.claims = append(s.claims, claim("", "acme", 1)) }, "and claims hold"},
		"other payer":       {func(_ *Agreement, s *stored) { s.claims[0].Spec.ConsumerRef.Name = "other" }, "claims are missing"},
		"ledger missing":    {func(_ *Agreement, s *stored) { s.ledgers = nil }, "the ledgers record map[]"},
		"ledger twice":      {func(_ *Agreement, s *stored) { s.ledgers = append(s.ledgers, s.ledgers[0]) }, "two ledgers"},
		"ledger of more":    {func(_ *Agreement, s *stored) { s.ledgers[0].Spec.Observations[0].Demands[0].Amount = 6 }, "the ledgers record"},
		"ledger of fewer":   {func(_ *Agreement, s *stored) { s.ledgers[0].Spec.Observations[0].Demands[0].Objects = 1 }, "the ledgers record"},
		"reservation": {func(_ *Agreement, s *stored) {
			s.ledgers[0].Spec.Reservations = []quotav1alpha1.LedgerReservation{{}}
		}, "are in flight"},
		"bucket missing": {func(_ *Agreement, s *stored) { s.buckets = nil }, "there are no buckets for"},
		"bucket twice":   {func(_ *Agreement, s *stored) { s.buckets = append(s.buckets, s.buckets[0]) }, "a second bucket"},
		"bucket of less": {func(_ *Agreement, s *stored) { s.buckets[0].Status.Allocated = 4 }, "the bucket of"},
		"bucket's count": {func(_ *Agreement, s *stored) { s.buckets[0].Status.ClaimCount = 1 }, "the bucket of"},
		"bucket's rest":  {func(_ *Agreement, s *stored) { s.buckets[0].Status.Available = 6 }, "the bucket of"},
		"other limit":    {func(a *Agreement, _ *stored) { a.Limits["acme"]["things"] = 9 }, "want {amount:5 claims:2} of 9"},
		"beyond the limit": {func(a *Agreement, s *stored) {
			a.Limits["acme"]["things"] = 4
			s.buckets[0].Status.Limit, s.buckets[0].Status.Available = 4, 0
		}, "more than its limit 4"},
		"overdraft": {func(a *Agreement, s *stored) {
			a.Limits["acme"]["things"], a.Overdraft = 4, true
			s.buckets[0].Status.Limit, s.buckets[0].Status.Available = 4, 0
		}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, s := agreeing()
			tt.change(&a, s)
			switch err := a.Check(t.Context(), s); {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want an error that says %q", err, tt.want)
			}
		})
	}
}
