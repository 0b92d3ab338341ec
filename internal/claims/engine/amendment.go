// Package engine takes claims from state to state together with their reservations in the ledger. Each step may be found done
// already, by this process before a crash or by another one.
package engine

import (
	"context"

	"github.com/go-logr/logr"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Engine changes claims and ledgers. It is safe for concurrent use. Its fields are set once, before use.
type Engine struct {
	Store *ledgerstore.Store
	Log   logr.Logger
}

// SettleAmendment ends an amendment whose claim already holds its new charges. If the ledger lacks what the claim held
// before, it ends the amendment all the same and leaves the difference to the auditor. It reports false if no amendment
// with that sequence is in flight any more: another change has extended it, or another process has ended it.
func (e *Engine) SettleAmendment(ctx context.Context, consumer quotav1alpha1.ConsumerRef, key string, sequence int64, after []ledger.Charge) (bool, error) {
	settled, err := e.Store.SettleAmendment(ctx, consumer, key, sequence, after)
	if settled || err != nil {
		return settled, err
	}
	if !e.IsInFlight(ledgerstore.InFlight{Consumer: consumer, Reservation: ledger.Reservation{Key: key, Sequence: sequence}}) {
		return false, nil
	}
	e.Log.Info("the ledger lacked what a claim held before it was amended", "amendment", key, "consumer", consumer.Name)
	return true, e.Store.Cancel(ctx, consumer, key, sequence)
}

// IsInFlight reports whether a reservation is in flight under its key and sequence, as far as this process knows.
func (e *Engine) IsInFlight(r ledgerstore.InFlight) bool {
	known, is := e.Store.ReservationOf(r.Consumer, r.Key)
	return is && known.Sequence == r.Sequence
}
