// Package escrow returns the slices of ended replicas: quota held ahead of demand. A slice covers its holder's
// unrecorded admissions. So it returns only after every object possibly admitted by the holder counts, or can no longer
// appear. Only the operator and tests import it.
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

// interval is the time between two looks at the slices.
const interval = 5 * time.Second

// Observations know how recent the inventory has to be.
type Observations interface {
	// Live returns, by kind, what an observation has to rest on to show everything before the call.
	Live(ctx context.Context) map[string]inventory.Live
}

// Controller returns slices. Every replica does it for its own consumers, as their preferred replica.
type Controller struct {
	Store    *ledgerstore.Store
	Observed Observations
	Log      logr.Logger

	// ended are the bases, by slice and kind, by which all requests had ended that its holder may have admitted.
	ended map[sliceID]map[string]ledger.Basis
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
	if len(over) == 0 {
		return errors.Join(errs...)
	}
	errs = append(errs, c.noteEnds(ctx, over))
	for _, slice := range over {
		if c.ended[idOf(slice)] == nil {
			continue
		}
		isDropped, err := c.Store.EndSlice(ctx, slice, c.ended[idOf(slice)])
		if errs = append(errs, err); isDropped {
			c.Log.Info("returned the slice of an ended replica; its objects count, and the rest is free",
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
	live := c.Observed.Live(ctx)
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
