package audit

import (
	"context"
	"fmt"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/tally"
)

const (
	// attemptsMax bounds the lists of a suspect's claims, until one without a change of the ledger in the meantime.
	attemptsMax = 5
	// retryDelay is the time between two attempts.
	retryDelay = 100 * time.Millisecond
)

// confirm compares a suspect again: with the cached claims, because the cache may have caught up, and then with an
// expensive list. It reports and repairs drift.
func (a *Auditor) confirm(ctx context.Context, l Ledger) {
	for range attemptsMax {
		if cached, err := a.inspect(ctx, l.Consumer); err == nil && cached.agrees() {
			a.metrics.audited(clean)
			return
		}
		drift, isKnown, err := a.drift(ctx, l.Consumer)
		switch {
		case err != nil:
			a.fail(ctx, l, err)
			return
		case isKnown && len(drift) == 0:
			a.metrics.audited(clean)
			return
		case isKnown:
			a.metrics.audited(drifted)
			a.report(l, a.repair(ctx, l.Consumer, drift))
			return
		}
		if !pause(ctx, retryDelay) {
			return
		}
	}
	a.metrics.audited(busy)
}

// drift compares a ledger with its listed claims. isKnown is false if the ledger changed during the list. The list ends
// at the change: the list of a busy consumer with many claims would cost the API server much, and each attempt again.
func (a *Auditor) drift(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (drift []tally.Difference, isKnown bool, err error) {
	before, err := a.view(ctx, consumer)
	if err != nil {
		return nil, false, err
	}
	isSame := func() bool {
		now, err := a.view(ctx, consumer)
		return err == nil && before.same(now)
	}
	listed, isWhole, err := a.Stored.ClaimsWhile(ctx, consumer, isSame)
	if err != nil {
		return nil, false, fmt.Errorf("list the claims of a ledger that seems to have drifted: %w", err)
	}
	if !isWhole || !isSame() {
		return nil, false, nil
	}
	held, err := before.inFlight.Usage(listed)
	if err != nil {
		return nil, false, fmt.Errorf("add up the claims: %w", err)
	}
	return tally.Compare(before.used, held), true, nil
}

// outcome is a difference and its repair.
type outcome struct {
	tally.Difference
	repaired bool
}

// repair corrects the ledger. It returns an outcome for every difference.
func (a *Auditor) repair(ctx context.Context, consumer quotav1alpha1.ConsumerRef, drift []tally.Difference) []outcome {
	outcomes := make([]outcome, len(drift))
	for i, d := range drift {
		repaired, err := a.Ledgers.Correct(ctx, consumer, d.Observed, d.Actual)
		if err != nil && ctx.Err() == nil {
			a.Log.Error(err, "drift was not repaired", "consumer", consumer.Kind+"/"+consumer.Name)
		}
		outcomes[i] = outcome{Difference: d, repaired: repaired}
	}
	return outcomes
}
