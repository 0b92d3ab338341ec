package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/policy"
)

// Result is what [Controller.Reconcile] did about an object and a policy.
type Result int

const (
	// Unchanged means that the object has the claim that the policy asks, or needs none.
	Unchanged Result = iota
	// Adopted means that the object had no claim, and its charge is reserved now.
	Adopted
	// Amended means that what its claim holds was changed.
	Amended
	// Pending means that a change of the object is under way, after which it is looked at again.
	Pending
)

// Reconcile makes sure that an object, as it was just read, has the claim that a policy asks. It adopts an object without
// one: it charges the object regardless of the limits. If the policy follows updates, Reconcile amends the claim to what the
// policy asks now; the claims of other policies stay as they are.
//
// An error that is no [evaluator.TransientError] says that the policy cannot be applied to the object.
func (c *Controller) Reconcile(ctx context.Context, p *catalog.Policy, live *unstructured.Unstructured) (Result, error) {
	// Without the list of claims every object would look as if it had none.
	if err := c.Claims.WaitForSync(ctx); err != nil {
		return 0, transient(err)
	}
	result, err := c.reconcile(ctx, p, live)
	if result == Pending && err == nil && p.FollowsUpdates() {
		c.lookAgain(object{p.Trigger.GroupKind(), live.GetUID()})
	}
	return result, err
}

// ReconcileListed is [Controller.Reconcile] for an object as it was listed, a moment ago. An object whose claim holds what the
// policy asks of it, as far as the cache of claims shows, is not read again: for very many objects that would be a storm
// of requests. Changes at this moment reach their own handlers.
func (c *Controller) ReconcileListed(ctx context.Context, p *catalog.Policy, listed *unstructured.Unstructured) (Result, error) {
	if err := c.Claims.WaitForSync(ctx); err != nil {
		return 0, transient(err)
	}
	if p.FollowsUpdates() && c.holdsAsked(ctx, p, listed) {
		return Unchanged, nil
	}
	return c.Reconcile(ctx, p, listed)
}

// holdsAsked reports whether the one claim that an object has of a policy holds what the policy asks of it, and nothing
// is about to change that. What cannot be told is left for Reconcile to report.
func (c *Controller) holdsAsked(ctx context.Context, p *catalog.Policy, listed *unstructured.Unstructured) bool {
	o := evaluator.ObjectOf(p.Trigger, listed)
	if c.isChanging(o.UID) || len(c.Store.ReservationsFor(string(o.UID))) > 0 {
		return false
	}
	policy := claims.LabelValue(p.Name)
	held := slices.DeleteFunc(c.Claims.ForObject(o.UID), func(claim *claimcache.Claim) bool { return claim.Policy() != policy })
	if len(held) != 1 || held[0].State != claimcache.Granted || held[0].Deleting || held[0].Superseded {
		return false
	}
	charges, err := claims.Charges(held[0].Requests())
	if err != nil {
		return false
	}
	asked, err := c.ask(ctx, p, o, listed)
	return err == nil && asked != nil && asked.Consumer == held[0].Consumer() && evaluator.SameCharges(charges, asked.Charges)
}

func (c *Controller) reconcile(ctx context.Context, p *catalog.Policy, live *unstructured.Unstructured) (Result, error) {
	o := evaluator.ObjectOf(p.Trigger, live)
	unlock, err := c.Store.LockObject(ctx, string(o.UID))
	if err != nil {
		return 0, transient(err)
	}
	defer unlock()
	if p.FollowsUpdates() {
		// What was read before may have changed since, and its claim with it.
		if live, err = c.reread(ctx, p.Trigger, o); live == nil || err != nil {
			return Unchanged, transient(err)
		}
	}
	f, err := c.gather(ctx, p, o, live.GetResourceVersion())
	if err != nil || f.isPending {
		return Pending, transient(err)
	}
	next := decideByClaim(f.claimState(c.Store), p.FollowsUpdates(), p.UsesRequest())
	if next == doFindLost {
		isFound, err := c.findLost(ctx, *f.amendment)
		if isFound || err != nil {
			return Pending, transient(err)
		}
		next = decideByClaim(claimMissing, p.FollowsUpdates(), p.UsesRequest())
	}
	switch next {
	case doEvaluate:
		return c.reconcileDemand(ctx, p, o, live, f)
	case doFinish:
		_, err := c.materialize(ctx, *f.madeFrom())
		return Pending, transient(err)
	case doSupersede:
		return Pending, transient(c.supersede(ctx, f.held))
	case doCheckCharge:
		return Pending, transient(c.endUncharged(ctx, f.held))
	default:
		return Unchanged, nil
	}
}

// reconcileDemand brings an object in line with what the policy asks of it now.
func (c *Controller) reconcileDemand(ctx context.Context, p *catalog.Policy, o evaluator.Object, live *unstructured.Unstructured, f facts) (Result, error) {
	asked, err := c.ask(ctx, p, o, live)
	switch {
	case evaluator.IsTransient(err):
		return 0, transient(err) // what is in flight stays until it can be told
	case policy.TookTooLong(err):
		return 0, err
	}
	next := decideByDemand(f.held != nil, f.demandOf(asked, err))
	if next == doRetain {
		_, errDrop := c.cancelReserved(ctx, f.reserved, nil)
		return 0, errors.Join(err, c.retain(ctx, f.held, f.amendment), errDrop)
	}
	isMade, err := c.cancelReserved(ctx, f.reserved, func(r ledgerstore.InFlight) bool {
		isTaken := f.held == nil || asked != nil && asked.Consumer != f.held.Spec.ConsumerRef
		return isTaken && asked != nil && r.Consumer == asked.Consumer
	})
	if err != nil {
		return 0, err
	}
	if isMade {
		return Pending, nil // what becomes of that claim is decided once it is seen
	}
	switch next {
	case doAdopt:
		return c.adopt(ctx, o, asked)
	case doSupersede:
		return Pending, transient(c.supersede(ctx, f.held))
	case doAmend:
		return c.amend(ctx, f.held, asked, f.amendment)
	default:
		return Unchanged, nil
	}
}

// findLost reports whether the claim of an amendment exists, which the cache does not show. If it does not, the amendment
// ends.
func (c *Controller) findLost(ctx context.Context, amendment ledgerstore.InFlight) (bool, error) {
	claim, err := c.amended(ctx, amendment)
	if claim != nil || err != nil {
		return true, err
	}
	return false, c.Store.Cancel(ctx, amendment.Consumer, amendment.Key, amendment.Sequence)
}

// reread reads an object in one version, and returns nil if it is gone.
func (c *Controller) reread(ctx context.Context, kind schema.GroupVersionKind, o evaluator.Object) (*unstructured.Unstructured, error) {
	resource, served, err := c.Kinds.VersionedResourceFor(ctx, kind)
	if err != nil || !served {
		return nil, err
	}
	live, err := c.Live.Resource(resource).Namespace(o.Name.Namespace).Get(ctx, o.Name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s %s: %w", o.Kind.Kind, o.Name, err)
	case live.GetUID() != o.UID:
		return nil, nil
	default:
		return live, nil
	}
}

// ask finds out what a policy asks of an object.
func (c *Controller) ask(ctx context.Context, p *catalog.Policy, o evaluator.Object, live *unstructured.Unstructured) (*evaluator.Claim, error) {
	in := c.Evaluator.Input(live.Object)
	if err := c.Evaluator.Complete(ctx, &in, o.Name.Namespace, []*catalog.Policy{p}); err != nil {
		return nil, err
	}
	return c.Evaluator.Plan(ctx, p, o, in)
}

// endUncharged takes a claim away that was not granted if the books do not have what it was made from: whoever made
// it has died, or could not take it away.
func (c *Controller) endUncharged(ctx context.Context, held *quotav1alpha1.ResourceClaim) error {
	isReserved, err := c.isReserved(ctx, ledgerstore.InFlight{Consumer: held.Spec.ConsumerRef, Reservation: ledger.Reservation{
		Key:      ledgerstore.ObjectKey(claims.PolicyOf(held), held.Annotations[quotav1alpha1.AnnotationResourceUID]),
		Sequence: claims.SequenceOf(held),
	}})
	if isReserved || err != nil {
		return err
	}
	return c.supersede(ctx, held)
}

// cancelReserved cancels what was reserved for changes that were not made, but for what is to be kept. It
// reports true if there turned out to be a claim of it, which stays.
func (c *Controller) cancelReserved(ctx context.Context, reserved []ledgerstore.InFlight, keep func(ledgerstore.InFlight) bool) (isMade bool, err error) {
	for _, r := range reserved {
		if keep != nil && keep(r) {
			continue
		}
		made, err := c.cancelUnmade(ctx, r)
		if err != nil {
			return isMade, transient(err)
		}
		isMade = isMade || made
	}
	return isMade, nil
}

// adopt charges an object that exists and has no claim. What was reserved for it already, for a
// change that has been made now, is used.
func (c *Controller) adopt(ctx context.Context, o evaluator.Object, asked *evaluator.Claim) (Result, error) {
	decision, err := c.Store.Adopt(ctx, asked.Consumer, func(ctx context.Context) (*ledger.Reservation, error) {
		r := &ledger.Reservation{Key: asked.Key, ReservedAt: time.Now().Unix(), Charges: asked.Charges, Claim: asked.Intent.Encode()}
		if isCharged, err := c.isCharged(ctx, asked.Consumer, r); isCharged || err != nil {
			return nil, err
		}
		return r, nil
	})
	switch {
	case err != nil:
		return 0, transient(err)
	case decision.Code == 0:
		return Pending, nil
	case decision.Code != ledger.Admitted:
		return 0, message.Impossible(asked.Consumer, decision.Code)
	}
	for _, reservation := range c.Store.ReservationsFor(string(o.UID)) {
		if reservation.Key != asked.Key || reservation.Consumer != asked.Consumer {
			continue
		}
		isMade, err := c.materialize(ctx, reservation)
		if err != nil {
			return 0, transient(err)
		}
		if !isMade || !evaluator.SameCharges(reservation.Charges, asked.Charges) {
			return Pending, nil // there is a claim for something else, which is amended next
		}
	}
	return Adopted, nil
}

// isCharged tells whether the object that r is for has a claim, of whatever reservation, which another
// process may have made and the cache not show yet. One that had to be given its other name is found out
// when the claim of r is to be made, see endSecond.
func (c *Controller) isCharged(ctx context.Context, consumer quotav1alpha1.ConsumerRef, r *ledger.Reservation) (bool, error) {
	claim, err := claims.FromReservation(ledgerstore.InFlight{Consumer: consumer, Reservation: *r})
	if err != nil {
		return false, err
	}
	stored, err := c.Client.Get(ctx, types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for the claim of an object that is to be adopted: %w", err)
	default:
		return sameOrigin(stored, claim), nil
	}
}

// supersede takes a claim away that another is to replace, or none.
func (c *Controller) supersede(ctx context.Context, held *quotav1alpha1.ResourceClaim) error {
	if !claims.IsSuperseded(held) {
		if err := c.Client.Supersede(ctx, held); err != nil {
			return err
		}
	}
	return c.deleteClaim(ctx, types.NamespacedName{Namespace: held.Namespace, Name: held.Name}, held.UID)
}

// amend makes a claim hold what is asked. The amendment in the ledger tells, until the last step,
// that the books still have what the claim held before; each step may be found done already.
func (c *Controller) amend(ctx context.Context, held *quotav1alpha1.ResourceClaim, asked *evaluator.Claim, amendment *ledgerstore.InFlight) (Result, error) {
	charges, err := claims.Charges(held.Spec.Requests)
	if err != nil {
		return 0, err
	}
	key := ledgerstore.AmendmentKey(claims.PolicyOf(held), held.Annotations[quotav1alpha1.AnnotationResourceUID])
	var sequence int64
	switch {
	case amendment != nil:
		sequence = amendment.Sequence
	case evaluator.SameCharges(charges, asked.Charges):
		return Unchanged, nil
	default:
		decision, err := c.openAmendment(ctx, held, asked, key)
		if err != nil {
			return 0, err
		}
		if decision.Existing {
			return Pending, nil // another process has admitted a change meanwhile
		}
		sequence = decision.Sequence
	}
	if err := c.Client.Amend(ctx, held, claims.RequestsOf(asked.Charges), func(amended *quotav1alpha1.ResourceClaim) {
		claims.Grant(amended, c.Catalog, time.Now())
	}); err != nil {
		return 0, transient(fmt.Errorf("change what claim %s/%s holds: %w", held.Namespace, held.Name, err))
	}
	isEnded, err := c.Engine.SettleAmendment(ctx, asked.Consumer, key, sequence, asked.Charges)
	switch {
	case err != nil:
		return 0, transient(err)
	case isEnded:
		return Amended, nil
	default:
		return Pending, nil // it goes on under another sequence
	}
}

// retain ends an amendment of a claim that goes on holding what it holds, because what it ought to
// hold cannot be told.
func (c *Controller) retain(ctx context.Context, held *quotav1alpha1.ResourceClaim, amendment *ledgerstore.InFlight) error {
	if held == nil || amendment == nil {
		return nil
	}
	charges, err := claims.Charges(held.Spec.Requests)
	if err != nil {
		return err
	}
	_, err = c.Engine.SettleAmendment(ctx, amendment.Consumer, amendment.Key, amendment.Sequence, charges)
	return transient(err)
}

// openAmendment prepares to change what a claim holds, whatever the limits.
func (c *Controller) openAmendment(ctx context.Context, held *quotav1alpha1.ResourceClaim, asked *evaluator.Claim, key string) (ledger.Decision, error) {
	decision, err := c.Store.Amend(ctx, asked.Consumer, true, claims.LaterChange, func(ctx context.Context) (*ledger.Reservation, error) {
		claim, err := c.Client.Reread(ctx, held)
		if err != nil {
			return nil, err
		}
		if claim == nil {
			return nil, apierrors.NewConflict(quotav1alpha1.Resource("resourceclaims"), held.Name, errors.New("it went away"))
		}
		return claims.Amendment(claim, key, asked.Charges, asked.Intent, "")
	})
	if err != nil {
		return decision, transient(err)
	}
	if decision.Code != ledger.Admitted {
		return decision, message.Impossible(asked.Consumer, decision.Code)
	}
	return decision, nil
}

// transient marks an error as one that is worth another try.
func transient(err error) error {
	if err == nil {
		return nil
	}
	return &evaluator.TransientError{Err: err}
}
