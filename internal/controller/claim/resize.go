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
	"github.com/bursar/bursar/internal/claimcache"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/explain"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
)

// resize decides what a granted claim is to hold in place of what it holds. The amendment in the ledger tells, until
// the last step, that the books still have what the claim held before; a process that dies in between leaves it to
// the sweep.
func (c *Controller) resize(ctx context.Context, name types.NamespacedName, consumer quotav1alpha1.ConsumerRef) error {
	if !c.begin(name) {
		c.queue.AddAfter(name, busyRetry)
		return nil
	}
	defer c.end(name)
	var asked resize
	decision, err := c.Store.Amend(ctx, consumer, false, func(_, after string) string { return after }, func(ctx context.Context) (*ledger.Reservation, error) {
		var err error
		asked, err = c.resizeOf(ctx, name, consumer)
		return asked.amendment, err
	})
	switch {
	case err != nil:
		return fmt.Errorf("resize claim %s: %w", name, err)
	case asked.claim == nil:
		return nil
	case asked.requests == nil:
		claims.EndResize(asked.claim)
		return c.report(ctx, asked.claim)
	case asked.flaw != nil:
		return c.await(ctx, asked.claim, quotav1alpha1.ReasonValidationFailed, asked.flaw.Error())
	}
	switch decision.Code {
	case ledger.Admitted:
		return c.amend(ctx, asked, decision.Sequence)
	case ledger.Exceeded:
		return c.await(ctx, asked.claim, quotav1alpha1.ReasonQuotaExceeded,
			explain.Waits(c.Catalog, consumer, decision.Shortages)+" The claim holds what it held, and the rest is granted by itself once there is room.")
	case ledger.NotHeld:
		return fmt.Errorf("resize claim %s: %w", name, errNotHeld)
	default:
		return c.await(ctx, asked.claim, quotav1alpha1.ReasonValidationFailed, explain.Impossible(consumer, decision.Code).Error())
	}
}

// errNotHeld: another process is settling the grant of the claim, or the auditor has to put the books right first.
var errNotHeld = errors.New("the books do not have what it holds")

// resize is what a claim is to hold.
type resize struct {
	// claim is nil if there is nothing to change.
	claim *quotav1alpha1.ResourceClaim
	// requests are nil if it holds that already, and does not say so.
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
	requests := claimcache.ResizeOf(claim)
	switch {
	case claim.DeletionTimestamp != nil || claim.Spec.ConsumerRef != consumer:
		return r, nil
	case requests == nil && claimcache.SaysResizePending(claim):
		return resize{claim: claim}, nil
	case requests == nil:
		return r, nil
	}
	held, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return r, err
	}
	resized := claim.DeepCopy()
	resized.Spec.Requests = requests
	r = resize{claim: claim, requests: requests}
	amendment, flaw := c.reservationOf(resized)
	if flaw != nil {
		r.flaw = flaw
		return r, nil
	}
	amendment.Key, amendment.Replaces = ledgerstore.ResizeKey(string(claim.UID)), held
	r.amendment = &amendment
	return r, nil
}

// amend has a claim hold what was admitted.
func (c *Controller) amend(ctx context.Context, asked resize, sequence int64) error {
	claim := asked.claim
	if err := c.Client.Amend(ctx, claim, asked.requests, func(amended *quotav1alpha1.ResourceClaim) {
		claims.Grant(amended, c.Catalog, time.Now())
		claims.EndResize(amended)
	}); err != nil {
		return fmt.Errorf("change what claim %s/%s holds: %w", claim.Namespace, claim.Name, err)
	}
	return c.exchange(ctx, claim.Spec.ConsumerRef, asked.amendment.Key, sequence, asked.amendment.Charges)
}

// exchange ends an amendment whose claim says what it holds from now on. It does so as well if the books do not have
// what the claim held before, which is for the auditor to put right, and does nothing if it goes on under another
// sequence.
func (c *Controller) exchange(ctx context.Context, consumer quotav1alpha1.ConsumerRef, key string, sequence int64, after []ledger.Charge) error {
	done, err := c.Store.Exchange(ctx, consumer, key, sequence, after)
	if done || err != nil {
		return err
	}
	return c.Store.Cancel(ctx, consumer, key, sequence)
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

// finishResize ends an amendment that was left half done: the claim says what it holds from now on, unless it is still
// to hold something else.
func (c *Controller) finishResize(ctx context.Context, claim *quotav1alpha1.ResourceClaim, amendment ledgerstore.Pending) error {
	if claimcache.ResizeOf(claim) != nil {
		c.queue.Add(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
		return nil
	}
	held, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return err
	}
	return c.exchange(ctx, amendment.Consumer, amendment.Key, amendment.Sequence, held)
}
