package engine

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// SettleAmendment ends an amendment whose claim already holds its new charges. If the ledger lacks the claim's former
// charges, it still ends the amendment and leaves the difference to the auditor. It reports false if no amendment
// with that sequence is in flight: another change has extended it, or another process has ended it.
func (e *Engine) SettleAmendment(ctx context.Context, consumer quotav1alpha1.ConsumerRef, key string, sequence int64, after []ledger.Charge) (bool, error) {
	settled, err := e.Store.SettleAmendment(ctx, consumer, key, sequence, after)
	if settled || err != nil {
		return settled, err
	}
	if !e.IsInFlight(ledgerstore.InFlight{Consumer: consumer, Reservation: ledger.Reservation{Key: key, Sequence: sequence}}) {
		return false, nil
	}
	e.Log.Info("the ledger lacked the amounts of a claim before its amendment", "amendment", key, "consumer", consumer.Name)
	return true, e.Store.Cancel(ctx, consumer, key, sequence)
}
