package engine

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// adopt charges an existing object without a claim. It charges nothing if the object is gone by now.
func (e *Engine) adopt(ctx context.Context, o evaluator.Object, demanded *evaluator.Claim) (Result, error) {
	adopted := func(ctx context.Context) ([]ledger.Reservation, error) {
		// Another process may have made a claim, of any reservation, and the cache may not have it yet.
		if isCharged, err := e.isCharged(ctx, demanded); isCharged || err != nil {
			return nil, err
		}
		// After that look, since a deletion of the object may be why it has no claim.
		if exists, err := e.Objects.IsAlive(ctx, o.Kind.GroupKind(), o.Name, o.UID); !exists || err != nil {
			return nil, err
		}
		return []ledger.Reservation{{
			Key: demanded.Key, ReservedAt: time.Now().Unix(), Charges: demanded.Charges, Claim: demanded.Intent.Encode(), Subject: demanded.Intent.Subject(),
		}}, nil
	}
	outcome, err := e.Store.Apply(ctx, demanded.Consumer, ledgerstore.Request{Verify: adopted, Overdraft: true, IsForExisting: true})
	switch {
	case err != nil:
		return 0, transient(err)
	case outcome.Code == 0:
		return Pending, nil
	case outcome.Code != ledger.Admitted:
		return 0, message.Impossible(demanded.Consumer, outcome.Code)
	}
	for _, reservation := range e.Store.ReservationsFor(string(o.UID)) {
		if reservation.Key != demanded.Key || reservation.Consumer != demanded.Consumer {
			continue
		}
		isMade, err := e.Materialize(ctx, reservation)
		if err != nil {
			return 0, transient(err)
		}
		if !isMade {
			return Pending, nil
		}
	}
	return Adopted, nil
}

// isCharged reports whether the object of a claim has one already, from any reservation. It looks only under the first
// name of the claim: a look under every name would halve the pace of adoption.
func (e *Engine) isCharged(ctx context.Context, demanded *evaluator.Claim) (bool, error) {
	claim, err := claims.FromReservation(reservationOf(demanded))
	if err != nil {
		return false, err
	}
	stored, err := e.Client.Get(ctx, types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for the claim of an object to adopt: %w", err)
	default:
		return sameOrigin(stored, claim), nil
	}
}
