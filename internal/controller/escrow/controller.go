// Package escrow returns the slices of ended replicas: quota held ahead of demand. A slice covers its holder's
// unrecorded admissions. So it returns only after every object possibly admitted by the holder has appeared and has its
// charge, or can no longer appear. Only the operator and tests import it.
package escrow

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

const (
	// interval is the time between two looks at the slices. pauseMax bounds the pause after failed lists of objects.
	// The pause doubles with each failure.
	interval = 5 * time.Second
	pauseMax = 5 * time.Minute
	// unrecordedMax is more than the time between the creation of an object, by its timestamp, and the record of its
	// charge in the ledger or in its holder's latest write. A request may take two minutes, and each commit some
	// seconds.
	unrecordedMax = 5 * time.Minute
)

// Adopter charges objects without a claim.
type Adopter interface {
	// AdoptSince charges all objects created since a time without a claim or reservation. It returns the resource types
	// of the incompletely applied policies, with the errors; all types, if there are only errors.
	AdoptSince(ctx context.Context, since time.Time) (uncharged []string, err error)
}

// Observations know how recent the inventory has to be.
type Observations interface {
	// Live returns, by kind, what an observation has to rest on to show everything before the call.
	Live(ctx context.Context) map[string]inventory.Live
}

// Controller returns slices. Every replica does it for its own consumers, as their preferred replica.
type Controller struct {
	Store   *ledgerstore.Store
	Adopter Adopter
	// Observed are the counted kinds. It may be nil.
	Observed Observations
	Log      logr.Logger

	// ended are the bases, by slice and kind, by which all requests had ended that its holder may have admitted.
	ended map[sliceID]map[string]ledger.Basis
	// pause is the time between two lists of objects after the first failed, and next the time of the next one.
	pause time.Duration
	next  time.Time
}

// Run returns slices until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for {
		if err := c.Recover(ctx); err != nil && ctx.Err() == nil {
			c.Log.Error(err, "cannot return the slices of ended replicas; their quota stays reserved, will try again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// Recover revokes the slices of holders without recent writes, and returns those revoked long ago.
func (c *Controller) Recover(ctx context.Context) error {
	over, errs := c.revokeStalled(ctx)
	if len(over) == 0 || time.Now().Before(c.next) {
		return errors.Join(errs...)
	}
	since := time.Unix(over[0].WrittenAt, 0)
	for i := range over {
		if written := time.Unix(over[i].WrittenAt, 0); written.Before(since) {
			since = written
		}
	}
	uncharged, err := c.Adopter.AdoptSince(ctx, since.Add(-unrecordedMax))
	if err == nil {
		c.pause = 0
	} else {
		c.pause = min(max(2*c.pause, interval), pauseMax)
		c.next = time.Now().Add(c.pause)
	}
	errs = append(errs, err)
	if err != nil && len(uncharged) == 0 {
		return errors.Join(errs...)
	}
	errs = append(errs, c.noteEnds(ctx, over))
	for _, slice := range over {
		if c.ended[idOf(slice)] == nil {
			continue
		}
		if slices.ContainsFunc(uncharged, func(resourceType string) bool { return slice.Amounts[resourceType] > 0 }) {
			continue
		}
		isDropped, err := c.Store.EndSlice(ctx, slice, c.ended[idOf(slice)])
		if errs = append(errs, err); isDropped {
			c.Log.Info("returned the slice of an ended replica; its objects are charged, and the rest is free",
				"consumer", slice.Consumer.Kind+"/"+slice.Consumer.Name)
		}
	}
	return errors.Join(errs...)
}

// revokeStalled revokes the slices of holders without recent writes, and returns those revoked long ago.
func (c *Controller) revokeStalled(ctx context.Context) (over []ledgerstore.ForeignSlice, errs []error) {
	for _, slice := range c.Store.ForeignSlices() {
		switch {
		case slice.IsStalled():
			errs = append(errs, c.Store.RevokeSlice(ctx, slice))
		case slice.IsRevoked && time.Since(slice.Since) >= c.Store.AppearanceMax():
			over = append(over, slice)
		}
	}
	return over, errs
}

// sliceID identifies a slice of a ledger.
type sliceID struct {
	consumer quotav1alpha1.ConsumerRef
	holder   string
}

func idOf(slice ledgerstore.ForeignSlice) sliceID { return sliceID{slice.Consumer, slice.Holder} }

// noteEnds notes the bases by which the requests that the holders of slices admitted had ended. It leaves out a slice
// while that of a kind is unknown whose objects may use it, and returns why.
func (c *Controller) noteEnds(ctx context.Context, over []ledgerstore.ForeignSlice) error {
	var live map[string]inventory.Live
	if c.Observed != nil {
		live = c.Observed.Live(ctx)
	}
	var errs []error
	ended := map[sliceID]map[string]ledger.Basis{}
	for _, slice := range over {
		bases, err := basesFor(slice, live, c.ended[idOf(slice)])
		if errs = append(errs, err); err == nil {
			ended[idOf(slice)] = bases
		}
	}
	c.ended = ended
	return errors.Join(errs...)
}

// basesFor returns the bases of the kinds whose objects may use a slice: those of before, or else the live ones.
func basesFor(slice ledgerstore.ForeignSlice, live map[string]inventory.Live, before map[string]ledger.Basis) (map[string]ledger.Basis, error) {
	bases := map[string]ledger.Basis{}
	for kind, of := range live {
		uses := func(resourceType string) bool { return slice.Amounts[resourceType] > 0 }
		known, isKnown := before[kind]
		switch {
		case !slices.ContainsFunc(of.ResourceTypes, uses):
		case isKnown:
			bases[kind] = known
		case of.Err != nil:
			return nil, of.Err
		default:
			bases[kind] = of.Basis
		}
	}
	return bases, nil
}
