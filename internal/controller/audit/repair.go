package audit

import (
	"context"
	"fmt"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// confirm reads a suspect again. It reports and repairs drift that has not changed.
func (a *Auditor) confirm(ctx context.Context, s suspect) {
	now, err := a.inspect(ctx, s.Consumer)
	if err != nil {
		a.fail(ctx, s.Ledger, err)
		return
	}
	switch {
	case !now.isUnclear && len(now.drift()) == 0 && !(now.quiescent && s.quiescent):
		a.metrics.audited(clean)
		return
	case !now.quiescent || !s.quiescent:
		a.confirmBusy(ctx, s)
		return
	case !now.same(s.state):
		a.metrics.audited(busy)
		return
	}
	a.metrics.audited(drifted)
	outcomes, err := a.repair(ctx, s.Consumer, now.drift())
	if err != nil && ctx.Err() == nil {
		a.Log.Error(err, "drift was not repaired", "consumer", s.Consumer.Kind+"/"+s.Consumer.Name)
	}
	a.report(s.Ledger, outcomes)
}

// outcome is a difference and its repair.
type outcome struct {
	difference
	repaired bool
}

// repair corrects the ledger: first it adds lacking usage, and then, if the API server confirms it, it removes excess
// usage. It returns an outcome for every difference, also with an error.
func (a *Auditor) repair(ctx context.Context, consumer quotav1alpha1.ConsumerRef, drift []difference) ([]outcome, error) {
	slices.SortStableFunc(drift, func(d, e difference) int {
		switch {
		case d.lacksUsage() == e.lacksUsage():
			return 0
		case d.lacksUsage():
			return -1
		default:
			return 1
		}
	})
	outcomes := make([]outcome, len(drift))
	for i, d := range drift {
		outcomes[i].difference = d
	}
	for i, d := range drift {
		if !d.lacksUsage() {
			return outcomes, a.releaseExcess(ctx, consumer, outcomes[i:])
		}
		var err error
		if outcomes[i].repaired, err = a.Ledgers.Correct(ctx, consumer, d.observed, d.actual); err != nil {
			return outcomes, fmt.Errorf("charge lacking usage: %w", err)
		}
	}
	return outcomes, nil
}

// releaseExcess removes excess usage from balances, as far as the API server's own list of claims agrees.
func (a *Auditor) releaseExcess(ctx context.Context, consumer quotav1alpha1.ConsumerRef, outcomes []outcome) error {
	live, err := a.Stored.ClaimsOf(ctx, consumer)
	if err != nil {
		return fmt.Errorf("confirm by a list of claims that too much is charged: %w", err)
	}
	current, err := a.view(ctx, consumer)
	if err != nil {
		return err
	}
	held, err := Usage(live, current.inFlight.withdrawn)
	if err != nil {
		return fmt.Errorf("add up the listed claims: %w", err)
	}
	balances := byKey(held)
	for i, o := range outcomes {
		if usageOf(balances, keyOf(o.actual)) != o.actual {
			continue
		}
		if outcomes[i].repaired, err = a.Ledgers.Correct(ctx, consumer, o.observed, o.actual); err != nil {
			return fmt.Errorf("remove excess usage: %w", err)
		}
	}
	return nil
}
