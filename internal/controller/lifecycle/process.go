package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// process brings the claims and reservations of one object in line with whether it exists.
func (c *Controller) process(ctx context.Context, o object) error {
	if c.Objects.Presence(o.kind, o.uid) == objectcache.Present {
		return c.bind(ctx, o)
	}
	// Somebody who read the object before it went may be making its claim.
	unlock, err := c.Store.LockObject(ctx, string(o.uid))
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	for _, reservation := range c.Store.ReservationsFor(string(o.uid)) {
		if ledgerstore.IsAmendment(reservation.Key) {
			errs = append(errs, c.endAmendment(ctx, o, reservation))
		} else {
			errs = append(errs, c.processUnseen(ctx, o, reservation))
		}
	}
	for _, claim := range c.Claims.ForObject(o.uid) {
		if !claim.Deleting {
			errs = append(errs, c.removeOrphan(ctx, o, claim))
		}
	}
	return errors.Join(errs...)
}

// bind makes the claims of an object that exists, and has them follow it if it changes.
func (c *Controller) bind(ctx context.Context, o object) error {
	unlock, err := c.Store.LockObject(ctx, string(o.uid))
	if err != nil {
		return err
	}
	var errs []error
	follow := c.isChanging(o.uid)
	for _, reservation := range c.Store.ReservationsFor(string(o.uid)) {
		if isForChange(reservation) {
			follow = true // the change may not have been made yet
			errs = append(errs, c.abandon(ctx, reservation))
			continue
		}
		_, err := c.materialize(ctx, reservation)
		errs = append(errs, err)
	}
	unlock()
	if follow {
		errs = append(errs, c.follow(ctx, o))
	}
	return errors.Join(errs...)
}

// processUnseen handles a reservation whose object is not there: gone, or yet to come.
func (c *Controller) processUnseen(ctx context.Context, o object, reservation ledgerstore.InFlight) error {
	if !c.IsGone(o.uid) {
		// By a clock that nobody sets; it may have been reserved long before that.
		if time.Since(reservation.KnownSince) < c.Store.ReservationLifetime {
			return nil
		}
		intent, err := claims.IntentOf(reservation.Claim)
		if err != nil {
			return err
		}
		exists, err := c.Objects.Lives(ctx, o.kind, intent.Object, o.uid)
		if err != nil {
			return err
		}
		if exists {
			_, err := c.materialize(ctx, reservation)
			return err
		}
	}
	return c.giveUp(ctx, reservation)
}

// endAmendment ends an amendment of which both the object and the claim are gone. It ends with its
// claim otherwise.
func (c *Controller) endAmendment(ctx context.Context, o object, amendment ledgerstore.InFlight) error {
	if !c.IsGone(o.uid) {
		intent, err := claims.IntentOf(amendment.Claim)
		if err != nil {
			return err
		}
		if exists, err := c.Objects.Lives(ctx, o.kind, intent.Object, o.uid); exists || err != nil {
			return err
		}
	}
	if claim, err := c.amended(ctx, amendment); claim != nil || err != nil {
		return err
	}
	if err := c.Store.Cancel(ctx, amendment.Consumer, amendment.Key, amendment.Sequence); err != nil {
		return err
	}
	c.Store.ReleaseDone(amendment.Consumer, amendment.Key)
	return nil
}

// giveUp ends a reservation whose object is gone or never came, and takes its claim away if one was
// made.
func (c *Controller) giveUp(ctx context.Context, reservation ledgerstore.InFlight) error {
	made, err := c.withdraw(ctx, reservation)
	if err != nil {
		return err
	}
	c.Store.ReleaseDone(reservation.Consumer, reservation.Key)
	if made == nil {
		return nil
	}
	return c.deleteClaim(ctx, types.NamespacedName{Namespace: made.Namespace, Name: made.Name}, made.UID)
}

// removeOrphan deletes a claim if its object is gone.
func (c *Controller) removeOrphan(ctx context.Context, o object, claim *claimcache.Claim) error {
	if !c.IsGone(o.uid) {
		exists, err := c.Objects.Lives(ctx, o.kind, claim.Object, o.uid)
		if err != nil || exists {
			return err
		}
	}
	return c.deleteClaim(ctx, claim.NamespacedName, claim.UID)
}

func (c *Controller) deleteClaim(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	err := c.Client.Delete(ctx, name, uid)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone, and what has its name now is another claim
	}
	if err != nil {
		return fmt.Errorf("delete claim %s, whose object is gone: %w", name, err)
	}
	if c.Claims.HasSynced() {
		return nil
	}
	deleted, err := c.Client.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read claim %s, which is deleted: %w", name, err)
	}
	c.Claims.Note(deleted)
	return nil
}
