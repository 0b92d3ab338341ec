package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// resize decides what a granted claim is to hold in place of what it holds. The amendment in the ledger tells, until
// the last step, that the books still have what the claim held before; a process that dies in between leaves it to
// the sweep.
func (c *Controller) resize(ctx context.Context, name types.NamespacedName, consumer quotav1alpha1.ConsumerRef) error {
	if !c.begin(name) {
		c.decisions.AddAfter(task{name, consumer}, busyRetry)
		return nil
	}
	defer c.end(name)
	var asked resize
	decision, err := c.Store.Amend(c.withPatience(ctx, task{name, consumer}), consumer, false, func(_, after string) string { return after }, func(ctx context.Context) (*ledger.Reservation, error) {
		var err error
		asked, err = c.resizeOf(ctx, name, consumer)
		return asked.amendment, err
	})
	if errors.Is(err, ledgerstore.ErrReleasing) {
		c.postpone(task{name, consumer})
		return nil
	}
	c.decided(task{name, consumer})
	switch {
	case err != nil:
		return fmt.Errorf("resize claim %s: %w", name, err)
	case asked.claim == nil:
		return nil
	case asked.requests == nil:
		return c.finishResize(ctx, asked.claim)
	case asked.flaw != nil:
		return c.await(ctx, asked.claim, quotav1alpha1.ReasonValidationFailed, asked.flaw.Error())
	}
	switch decision.Code {
	case ledger.Admitted:
		return c.amend(ctx, asked, decision.Sequence)
	case ledger.Exceeded:
		return c.exceeded(ctx, asked, decision.Shortages)
	case ledger.NotHeld:
		return fmt.Errorf("resize claim %s: %w", name, errNotHeld)
	default:
		err, reason := message.Impossible(consumer, decision.Code), quotav1alpha1.ReasonValidationFailed
		if full := (*message.FullError)(nil); errors.As(err, &full) {
			reason = quotav1alpha1.ReasonQuotaExceeded
		}
		return c.await(ctx, asked.claim, reason, err.Error())
	}
}

// errNotHeld: the grant of the claim is being settled, or the auditor has to put the books right first.
var errNotHeld = errors.New("the books do not have what it holds")

// resize is what a claim is to hold.
type resize struct {
	// claim is nil if it is not one that is resized.
	claim *quotav1alpha1.ResourceClaim
	// requests are nil if the claim holds what it is to hold.
	requests []quotav1alpha1.ResourceRequest
	// flaw says why it cannot be decided. Otherwise there is an amendment.
	flaw      error
	amendment *ledger.Reservation
}

// resizeOf reads what a claim is to hold.
func (c *Controller) resizeOf(ctx context.Context, name types.NamespacedName, consumer quotav1alpha1.ConsumerRef) (r resize, err error) {
	claim, err := c.Client.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read claim %s: %w", name, err)
	}
	if claim.DeletionTimestamp != nil || claim.Spec.ConsumerRef != consumer || claimcache.IsFromPolicy(claim) || claimcache.StateOf(claim) != claimcache.Granted {
		return r, nil
	}
	r = resize{claim: claim, requests: claimcache.ResizeOf(claim)}
	if r.requests == nil {
		return r, nil
	}
	amendment, flaw := c.resizeReservation(claim, r.requests)
	if flaw != nil {
		r.flaw = flaw
		return r, nil
	}
	r.amendment = &amendment
	return r, nil
}

// resizeReservation is the amendment that has a claim hold other requests, or why it cannot be made.
func (c *Controller) resizeReservation(claim *quotav1alpha1.ResourceClaim, requests []quotav1alpha1.ResourceRequest) (ledger.Reservation, error) {
	held, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return ledger.Reservation{}, err
	}
	resized := claim.DeepCopy()
	resized.Spec.Requests = requests
	amendment, err := c.reservationOf(resized)
	amendment.Key, amendment.Replaces = ledgerstore.ResizeKey(string(claim.UID)), held
	return amendment, err
}

// hasResizeInFlight tells whether an amendment of a claim has to be ended.
func (c *Controller) hasResizeInFlight(claim *claimcache.Claim) bool {
	_, known := c.Store.ReservationOf(claim.Consumer(), ledgerstore.ResizeKey(string(claim.UID)))
	return known
}

// amend has a claim hold what was admitted.
func (c *Controller) amend(ctx context.Context, asked resize, sequence int64) error {
	if err := c.say(ctx, asked.claim, asked.requests); err != nil {
		return err
	}
	_, err := c.Engine.SettleAmendment(ctx, asked.claim.Spec.ConsumerRef, asked.amendment.Key, sequence, asked.amendment.Charges)
	return err
}

// say has a claim say that it holds some requests. What it says already is not written again.
func (c *Controller) say(ctx context.Context, claim *quotav1alpha1.ResourceClaim, requests []quotav1alpha1.ResourceRequest) error {
	if err := c.Client.Amend(ctx, claim, requests, func(amended *quotav1alpha1.ResourceClaim) {
		claims.Grant(amended, c.Catalog, time.Now())
		claims.EndResize(amended)
	}); err != nil {
		return fmt.Errorf("change what claim %s/%s holds: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// finishResize finishes what is left of a resize: the claim requests what it holds, and its status and the books may not
// say so yet.
func (c *Controller) finishResize(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	if err := c.say(ctx, claim, claim.Spec.Requests); err != nil {
		return err
	}
	return c.endInFlight(ctx, claim)
}

// exceeded records that there is no room for what a claim is to hold. An amendment to something else, which was asked
// for before, is ended first: whoever opened it has changed the claim already, or cannot do so any more, since the
// claim was changed by whoever asks for something else.
func (c *Controller) exceeded(ctx context.Context, asked resize, shortages []ledger.Shortage) error {
	claim := asked.claim
	if _, known := c.Store.ReservationOf(claim.Spec.ConsumerRef, asked.amendment.Key); known {
		c.decisions.AddAfter(task{types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}, claim.Spec.ConsumerRef}, busyRetry) // what is short is known then
		return c.endInFlight(ctx, claim)
	}
	return c.await(ctx, claim, quotav1alpha1.ReasonQuotaExceeded, message.Of(claim.Spec.ConsumerRef, shortages).Sentences(c.Catalog,
		"This is in addition to what the claim holds, which it keeps; it is granted by itself once there is room."))
}

// endInFlight ends the amendment of a claim that says what it holds from now on, if there is one.
func (c *Controller) endInFlight(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	held, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return err
	}
	consumer, key := claim.Spec.ConsumerRef, ledgerstore.ResizeKey(string(claim.UID))
	if amendment, known := c.Store.ReservationOf(consumer, key); known {
		_, err = c.Engine.SettleAmendment(ctx, consumer, key, amendment.Sequence, held)
	}
	return err
}

// await records why a claim does not hold yet what it is to hold.
func (c *Controller) await(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reason, message string) error {
	before := claim.Status.DeepCopy()
	claims.AwaitResize(claim, reason, message)
	if equality.Semantic.DeepEqual(*before, claim.Status) {
		return nil
	}
	return c.report(ctx, claim)
}
