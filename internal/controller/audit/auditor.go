package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/tally"
	"github.com/bursar/bursar/internal/ledger"
)

const (
	// ledgerInterval is the pause between two ledgers: a large audit causes no load.
	ledgerInterval = 10 * time.Millisecond
	// batchSize is the number of ledgers to compare before the audit compares the suspects among them again.
	batchSize = 64

	defaultInterval = 5 * time.Minute
	defaultRecheck  = 5 * time.Second
)

// Ledgers are the audited ledgers.
type Ledgers interface {
	// View reads the stored ledger.
	View(ctx context.Context, consumer quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error
	// Correct changes usage if the ledger still has the observed usage, and reports whether it did.
	Correct(ctx context.Context, consumer quotav1alpha1.ConsumerRef, observed, corrected ledger.Usage) (bool, error)
}

// Claims is the claim cache. It may lag a little.
type Claims interface {
	WaitForSync(ctx context.Context) error
	ForConsumer(consumer quotav1alpha1.ConsumerRef, keep func(*claimcache.Claim) bool) []*claimcache.Claim
}

// Ledger is a stored ledger.
type Ledger struct {
	Consumer quotav1alpha1.ConsumerRef
	UID      types.UID
	// Quiescent reports whether nothing was in flight at the time of the list. Used and Withdrawn are the ledger's
	// usage and its withdrawn sequences then.
	Quiescent bool
	Used      []ledger.Usage
	Withdrawn ledger.SequenceSet
}

// Stored reads from the API server. [Live] implements it.
type Stored interface {
	// Ledgers returns all ledgers.
	Ledgers(ctx context.Context) ([]Ledger, error)
	// ClaimsWhile returns the claims of a consumer. It lists them in parts, and stops, without any, once goOn returns
	// false between two parts.
	ClaimsWhile(ctx context.Context, consumer quotav1alpha1.ConsumerRef, goOn func() bool) (claims []*claimcache.Claim, isWhole bool, err error)
}

// Engine removes claims.
type Engine interface {
	// Reinspect has a claim removed if its sequence was withdrawn.
	Reinspect(ctx context.Context, claim *claimcache.Claim) error
}

// Options configure the auditor.
type Options struct {
	Ledgers Ledgers
	Claims  Claims
	Stored  Stored
	Engine  Engine
	// Events receives an event for every drifted ledger. Default: no events.
	Events events.EventRecorder
	Log    logr.Logger
	// Interval is the time between the end of one audit and the start of the next. Default: 5 minutes.
	Interval time.Duration
	// Recheck is the time until the second comparison after drift by the cached claims. Default: 5 seconds.
	Recheck time.Duration
}

// Auditor audits all ledgers regularly.
type Auditor struct {
	Options
	metrics *metrics
}

// New returns an auditor. It does nothing before Run.
func New(o Options) *Auditor {
	if o.Interval <= 0 {
		o.Interval = defaultInterval
	}
	if o.Recheck <= 0 {
		o.Recheck = defaultRecheck
	}
	return &Auditor{Options: o, metrics: newMetrics()}
}

// Run audits once the cache has all claims, and then at every interval, until ctx ends.
func (a *Auditor) Run(ctx context.Context) error {
	if err := a.Claims.WaitForSync(ctx); err != nil {
		return nil // ctx has ended
	}
	for {
		if err := a.audit(ctx); err != nil && ctx.Err() == nil {
			a.Log.Error(err, "will try again", "in", a.Interval)
		}
		if !pause(ctx, a.Interval) {
			return nil
		}
	}
}

// audit compares every ledger once.
func (a *Auditor) audit(ctx context.Context) error {
	ledgers, err := a.Stored.Ledgers(ctx)
	if err != nil {
		return fmt.Errorf("list the ledgers to audit: %w", err)
	}
	for some := range slices.Chunk(ledgers, batchSize) {
		if suspects := a.suspects(ctx, some); len(suspects) > 0 && pause(ctx, a.Recheck) {
			for _, s := range suspects {
				a.confirm(ctx, s)
			}
		}
	}
	return ctx.Err()
}

// suspects returns the seemingly drifted ledgers.
func (a *Auditor) suspects(ctx context.Context, ledgers []Ledger) []Ledger {
	var suspects []Ledger
	for _, l := range ledgers {
		if !pause(ctx, ledgerInterval) {
			return nil
		}
		a.removeWithdrawn(ctx, l)
		if a.agrees(l) {
			a.metrics.audited(clean)
			continue
		}
		seen, err := a.inspect(ctx, l.Consumer)
		switch {
		case err != nil:
			a.fail(ctx, l, err)
		case seen.agrees():
			a.metrics.audited(clean)
		default:
			suspects = append(suspects, l)
		}
	}
	return suspects
}

// removeWithdrawn has the engine remove the claims made from withdrawn reservations. Their sums are no drift. Normally
// each goes as soon as it appears.
func (a *Auditor) removeWithdrawn(ctx context.Context, l Ledger) {
	if len(l.Withdrawn) == 0 {
		return
	}
	for _, claim := range a.Claims.ForConsumer(l.Consumer, tally.Holds) {
		if !l.Withdrawn.Has(claim.Sequence) {
			continue
		}
		if err := a.Engine.Reinspect(ctx, claim); err != nil && ctx.Err() == nil {
			a.Log.Error(err, "a claim without a charge will be removed later", "claim", claim.NamespacedName.String())
		}
	}
}

// agrees reports whether a ledger was quiescent at the time of its list and matches the claims. Most ledgers do, and
// need no read.
func (a *Auditor) agrees(l Ledger) bool {
	if !l.Quiescent {
		return false
	}
	held, err := tally.Usage(a.Claims.ForConsumer(l.Consumer, tally.Holds), l.Withdrawn)
	return err == nil && len(tally.Compare(l.Used, held)) == 0
}

func (a *Auditor) fail(ctx context.Context, l Ledger, err error) {
	if ctx.Err() != nil {
		return
	}
	a.metrics.audited(failed)
	a.Log.Error(err, "cannot audit a ledger", "consumer", l.Consumer.Kind+"/"+l.Consumer.Name)
}

// pause waits and reports whether ctx is still active.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
