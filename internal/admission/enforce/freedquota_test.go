package enforce

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// numberedMap is the object of [numbered].
var numberedMap = engine.Object{Kind: configMap.GroupKind(), UID: "u"}

// An update can have the quota freed by an earlier update of the same object. Freeing it takes the lock of the
// object.
func TestUpdateWaitsForQuotaThatItsObjectFrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 10)
		s.follow(quotav1alpha1.EnforcementModeEnforce, "trigger.data.n != '0'")
		claim := s.paid("web", 8)
		acme := organization("acme")
		s.Engine.Expect(numberedMap, "1", []quotav1alpha1.ConsumerRef{acme})
		time.AfterFunc(50*time.Millisecond, func() {
			unlock, err := s.Store.LockObject(t.Context(), "u")
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			_, err = s.Store.Release(t.Context(), acme, string(claim.UID), func(context.Context) (*ledgerstore.ClaimCharges, error) {
				return &ledgerstore.ClaimCharges{ClaimUID: string(claim.UID), Granted: true, Charges: []ledger.Charge{{ResourceType: "maps", Amount: 8}}}, nil
			})
			if err != nil {
				t.Error(err)
			}
			s.Engine.Vanished("u", false) // as if the engine had followed the change
		})
		if answer := s.update(s, false, numbered("2", 0), numbered("2", 5)); !answer.Allowed {
			t.Errorf("refused: %s", answer.Result.Message)
		}
		if got := s.reserved(); got != 5 {
			t.Errorf("%d is reserved, want 5", got)
		}
		synctest.Wait()
	})
}

// An update with no more demand, or with another consumer, waits for nothing.
func TestUpdateDoesNotWaitForUnneededQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 10)
		s.follow(quotav1alpha1.EnforcementModeEnforce, "true")
		s.Engine.Expect(numberedMap, "0", []quotav1alpha1.ConsumerRef{organization("globex")})
		began := time.Now()
		for _, after := range []int{7, 3} {
			if answer := s.update(s, false, numbered("1", 5), numbered("1", after)); !answer.Allowed {
				t.Errorf("from 5 to %d: refused: %s", after, answer.Result.Message)
			}
			s.Engine.Expect(numberedMap, "0", []quotav1alpha1.ConsumerRef{organization("acme")})
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s, want that nothing is waited for", took)
		}
	})
}
