package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// othersUse makes other objects use an amount of a consumer, so the test detects a wrong release from the ledger.
func (s *stage) othersUse(consumer quotav1alpha1.ConsumerRef, amount int64) {
	s.Helper()
	key := ledgerstore.ObjectKey("p", "others")
	_, err := s.store.Apply(s.Context(), consumer, ledgerstore.Request{
		Reservations: []ledger.Reservation{{Key: key, Charges: charges(amount), Claim: intent().Encode()}}, Overdraft: true,
	})
	s.must(err)
	s.store.Settle(consumer, key, 0)
	synctest.Wait()
	time.Sleep(settling)
}

// wantFinally waits until there is nothing left to wait for, and compares the outcome.
func (s *stage) wantFinally(reason string, want ...string) {
	s.Helper()
	time.Sleep(settledAfter)
	synctest.Wait()
	if diff := cmp.Diff(want, s.outcome()); diff != "" {
		s.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

// A process dies after it granted a claim and before it settled it, and the policy goes before the next one starts. The
// claim stays, and so does its charge.
func TestPolicyGoneBeforeItsClaimIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.othersUse(acme, 10)
		s.claim(s.reserve(acme, 5), true)
		s.run(nil, fleet("1", "acme", 5))
		s.wantFinally("who has paid goes on paying", "acme uses 15, 0 in flight", "claim of acme for 5")
	})
}
