package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

const (
	// attemptsMax bounds the lists of a busy ledger's claims, until one during which the ledger does not change.
	attemptsMax = 5
	// retryDelay is the time between two attempts.
	retryDelay = 100 * time.Millisecond
)

// inFlight is the difference between a ledger's usage and its granted claims.
type inFlight struct {
	// reserved are the sequences of reservations by key. The usage does not include their claims yet.
	reserved map[string]int64
	// amended are the charges in the usage of claims with a pending amendment, by the key of the amendment.
	amended map[string][]ledger.Charge
	// released are claims that the usage no longer includes. It includes no claims with withdrawn sequences.
	released  map[string]struct{}
	withdrawn ledger.SequenceSet
}

func inFlightOf(snapshot *ledger.Ledger) inFlight {
	f := inFlight{reserved: map[string]int64{}, amended: map[string][]ledger.Charge{}, released: map[string]struct{}{}, withdrawn: snapshot.Withdrawn()}
	for r := range snapshot.Reservations() {
		if len(r.Replaces) > 0 {
			f.amended[r.Key] = r.Replaces
		} else {
			f.reserved[r.Key] = r.Sequence
		}
	}
	for id := range snapshot.Released() {
		f.released[id] = struct{}{}
	}
	return f
}

// same reports whether nothing was reserved, settled or released between two reads. Sequences are never reused.
func (f inFlight) same(other inFlight) bool {
	return maps.Equal(f.reserved, other.reserved) && maps.Equal(f.released, other.released) && slices.Equal(f.withdrawn, other.withdrawn) &&
		maps.EqualFunc(f.amended, other.amended, slices.Equal[[]ledger.Charge])
}

// usage returns the usage that a ledger should have with these claims and this in flight. It fails if the two do not
// match.
func (f inFlight) usage(claims []*claimcache.Claim) ([]ledger.Usage, error) {
	var sums sums
	amended := map[string]bool{}
	for _, claim := range claims {
		amendment := f.amendmentOf(claim)
		switch {
		case !holds(claim), f.isReserved(claim), f.isReleased(claim):
		case amendment == "":
			if err := sums.addClaim(claim); err != nil {
				return nil, err
			}
		case amended[amendment]:
			return nil, fmt.Errorf("two claims have the amendment %s", amendment)
		default:
			amended[amendment] = true
			if err := sums.add(f.amended[amendment]); err != nil {
				return nil, fmt.Errorf("amendment %s: %w", amendment, err)
			}
		}
	}
	if len(amended) != len(f.amended) {
		return nil, fmt.Errorf("of %d amendments %d have a claim", len(f.amended), len(amended))
	}
	return sums.usage(), nil
}

// isReserved reports whether the grant of a claim is not settled yet.
func (f inFlight) isReserved(claim *claimcache.Claim) bool {
	if claim.Sequence == 0 {
		_, is := f.reserved[ledgerstore.ClaimKey(string(claim.UID))]
		return is
	}
	sequence, is := f.reserved[ledgerstore.ObjectKey(claim.Policy(), string(claim.ObjectUID))]
	return is && sequence == claim.Sequence
}

// isReleased reports whether the charge of a claim was released, or its reservation withdrawn.
func (f inFlight) isReleased(claim *claimcache.Claim) bool {
	_, is := f.released[string(claim.UID)]
	return is || f.withdrawn.Has(claim.Sequence)
}

// amendmentOf returns the key of the pending amendment of a claim, or "".
func (f inFlight) amendmentOf(claim *claimcache.Claim) string {
	key := ledgerstore.ResizeKey(string(claim.UID))
	if claim.FromPolicy() {
		key = ledgerstore.AmendmentKey(claim.Policy(), string(claim.ObjectUID))
	}
	if f.amended[key] == nil {
		return ""
	}
	return key
}

// confirmBusy compares a suspect busy ledger with claims listed while the ledger does not change. It reports and
// repairs drift.
func (a *Auditor) confirmBusy(ctx context.Context, s suspect) {
	for range attemptsMax {
		drift, isKnown, err := a.driftWhileBusy(ctx, s.Consumer)
		switch {
		case err != nil:
			a.fail(ctx, s.Ledger, err)
			return
		case isKnown && len(drift) == 0:
			a.metrics.audited(clean)
			return
		case isKnown:
			a.metrics.audited(drifted)
			a.report(s.Ledger, a.repairBusy(ctx, s.Consumer, drift))
			return
		}
		if !pause(ctx, retryDelay) {
			return
		}
	}
	a.metrics.audited(busy)
}

// driftWhileBusy compares a ledger with its listed claims. isKnown is false if the ledger changed during the list.
func (a *Auditor) driftWhileBusy(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (drift []difference, isKnown bool, err error) {
	before, err := a.view(ctx, consumer)
	if err != nil {
		return nil, false, err
	}
	listed, err := a.Stored.ClaimsOf(ctx, consumer)
	if err != nil {
		return nil, false, fmt.Errorf("list the claims of a busy ledger: %w", err)
	}
	after, err := a.view(ctx, consumer)
	if err != nil {
		return nil, false, err
	}
	if !before.same(after) {
		return nil, false, nil
	}
	held, err := before.inFlight.usage(listed)
	if err != nil {
		return nil, false, nil //nolint:nilerr // what is in flight is in between two steps
	}
	return compare(before.used, held), true, nil
}

func (a *Auditor) repairBusy(ctx context.Context, consumer quotav1alpha1.ConsumerRef, drift []difference) []outcome {
	outcomes := make([]outcome, len(drift))
	for i, d := range drift {
		repaired, err := a.Ledgers.CorrectBusy(ctx, consumer, d.observed, d.actual)
		if err != nil && ctx.Err() == nil {
			a.Log.Error(err, "drift was not repaired", "consumer", consumer.Kind+"/"+consumer.Name)
		}
		outcomes[i] = outcome{difference: d, repaired: repaired}
	}
	return outcomes
}
