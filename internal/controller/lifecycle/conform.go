package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/explain"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
	"github.com/bursar/bursar/internal/plan"
)

// Result is what became of an object that was to conform to a policy.
type Result int

const (
	// Conforms: the object has the claim that the policy asks, or needs none.
	Conforms Result = iota
	// Adopted: the object had no claim, and its charge is reserved now.
	Adopted
	// Amended: what its claim holds was changed.
	Amended
	// Pending: a change of the object is under way, after which it is looked at again.
	Pending
)

// Conform sees to it that an object, as it was just read, has the claim that a policy asks. An
// object without one is adopted: charged regardless of the limits. What the claim of a policy
// holds that follows updates is made what the policy asks; of other policies it stays.
//
// An error that is no [plan.TransientError] says that the policy cannot be applied to the object.
func (c *Controller) Conform(ctx context.Context, p *catalog.Policy, live *unstructured.Unstructured) (Result, error) {
	return c.conform(ctx, p, live, p.FollowsUpdates())
}

func (c *Controller) conform(ctx context.Context, p *catalog.Policy, live *unstructured.Unstructured, amend bool) (Result, error) {
	o := plan.Object{
		Kind: p.Trigger, Name: types.NamespacedName{Namespace: live.GetNamespace(), Name: live.GetName()}, UID: live.GetUID(),
	}
	unlock, err := c.Store.LockObject(ctx, string(o.UID))
	if err != nil {
		return 0, &plan.TransientError{Err: err}
	}
	defer unlock()
	policy := claims.LabelValue(p.Name)
	amendment, isPending := c.inFlight(o, policy, live.GetResourceVersion())
	if isPending {
		return Pending, nil
	}
	held, err := c.Client.OfObject(ctx, c.Claims.ForObject(o.UID), policy)
	if err != nil {
		return 0, &plan.TransientError{Err: fmt.Errorf("read the claim of %s %s: %w", o.Kind.Kind, o.Name, err)}
	}
	switch {
	case held != nil && !amend:
		return Conforms, nil
	case held != nil && !claims.Stays(held):
		return Pending, nil // whatever replaces it, it goes first
	}
	in := c.Planner.Input(o, live.Object)
	if err := c.Planner.Complete(ctx, &in, o.Name.Namespace, []*catalog.Policy{p}); err != nil {
		return 0, err
	}
	asked, err := c.Planner.Plan(ctx, p, o, in)
	switch {
	case err != nil:
		return 0, errors.Join(err, c.keep(ctx, held, amendment))
	case held == nil && asked == nil:
		return Conforms, nil
	case held == nil:
		return c.adopt(ctx, o, asked)
	case asked == nil, asked.Consumer != held.Spec.ConsumerRef:
		return Pending, transient(c.supersede(ctx, held, asked))
	}
	return c.amend(ctx, held, asked, amendment)
}

// inFlight looks for what is reserved for a policy and an object: the amendment of its claim, and
// whether something else has to come first.
func (c *Controller) inFlight(o plan.Object, policy, version string) (amendment *ledgerstore.Pending, isPending bool) {
	for _, reservation := range c.Store.ReservationsFor(string(o.UID)) {
		if by, _ := ledgerstore.SplitObjectKey(reservation.Key); by != policy {
			continue
		}
		outline, err := claims.OutlineOf(reservation.Claim)
		mayCome := err == nil && outline.Base != "" && claims.MayChange(version, outline.Base) && time.Since(reservation.KnownSince) < reservationLifetime
		if ledgerstore.IsAmendment(reservation.Key) {
			amendment = &reservation
		} else if outline.Base == "" {
			return nil, true // its claim is being made
		}
		isPending = isPending || mayCome
	}
	return amendment, isPending
}

// adopt charges an object that exists and has no claim. What was reserved for it already, for a
// change that has been made now, is used.
func (c *Controller) adopt(ctx context.Context, o plan.Object, asked *plan.Claim) (Result, error) {
	decision, err := c.Store.Adopt(ctx, asked.Consumer, ledger.Reservation{
		Key: asked.Key, ReservedAt: time.Now().Unix(), Charges: asked.Charges, Claim: asked.Outline.Encode(),
	})
	if err != nil {
		return 0, transient(err)
	}
	if decision.Code != ledger.Admitted {
		return 0, explain.Impossible(asked.Consumer, decision.Code)
	}
	for _, reservation := range c.Store.ReservationsFor(string(o.UID)) {
		if reservation.Key != asked.Key || reservation.Consumer != asked.Consumer {
			continue
		}
		if err := c.materialize(ctx, reservation); err != nil {
			return 0, transient(err)
		}
		if !plan.SameCharges(reservation.Charges, asked.Charges) {
			return Pending, nil // it was reserved for something else, and is amended next
		}
	}
	return Adopted, nil
}

// supersede takes a claim away that another is to replace, or none.
func (c *Controller) supersede(ctx context.Context, held *quotav1alpha1.ResourceClaim, asked *plan.Claim) error {
	if err := c.Client.Supersede(ctx, held); err != nil {
		return err
	}
	c.Log.V(1).Info("a claim is superseded", "claim", held.Namespace+"/"+held.Name, "by", asked != nil)
	return c.deleteClaim(ctx, types.NamespacedName{Namespace: held.Namespace, Name: held.Name}, held.UID)
}

// amend makes a claim hold what is asked. The amendment in the ledger tells, until the last step,
// that the books still have what the claim held before; each step may be found done already.
func (c *Controller) amend(ctx context.Context, held *quotav1alpha1.ResourceClaim, asked *plan.Claim, amendment *ledgerstore.Pending) (Result, error) {
	charges, err := claims.Charges(held.Spec.Requests)
	if err != nil {
		return 0, err
	}
	key := ledgerstore.AmendmentKey(claims.PolicyOf(held), string(held.Annotations[quotav1alpha1.AnnotationResourceUID]))
	if plan.SameCharges(charges, asked.Charges) && amendment == nil {
		return Conforms, nil
	}
	if amendment == nil {
		if err := c.openAmendment(ctx, held, asked, key); err != nil {
			return 0, err
		}
	}
	if err := c.Client.Amend(ctx, held, claims.RequestsOf(asked.Charges), func(amended *quotav1alpha1.ResourceClaim) {
		claims.Grant(amended, c.Catalog, time.Now())
	}); err != nil {
		return 0, transient(fmt.Errorf("change what claim %s/%s holds: %w", held.Namespace, held.Name, err))
	}
	done, err := c.Store.Exchange(ctx, asked.Consumer, key, asked.Charges)
	if err != nil {
		return 0, transient(err)
	}
	if !done {
		c.Log.Info("what a claim held before it was changed was not in the books", "claim", held.Namespace+"/"+held.Name)
		return Amended, transient(c.Store.Cancel(ctx, asked.Consumer, key, 0))
	}
	return Amended, nil
}

// keep ends an amendment of a claim that goes on holding what it holds, because what it ought to
// hold cannot be told.
func (c *Controller) keep(ctx context.Context, held *quotav1alpha1.ResourceClaim, amendment *ledgerstore.Pending) error {
	if held == nil || amendment == nil {
		return nil
	}
	charges, err := claims.Charges(held.Spec.Requests)
	if err != nil {
		return err
	}
	_, err = c.Store.Exchange(ctx, amendment.Consumer, amendment.Key, charges)
	return transient(err)
}

func (c *Controller) openAmendment(ctx context.Context, held *quotav1alpha1.ResourceClaim, asked *plan.Claim, key string) error {
	decision, err := c.Store.Amend(ctx, asked.Consumer, true, claims.LaterChange, func(ctx context.Context) (*ledger.Reservation, error) {
		claim, err := c.Client.Reread(ctx, held)
		if err != nil {
			return nil, err
		}
		if claim == nil {
			return nil, apierrors.NewConflict(quotav1alpha1.Resource("resourceclaims"), held.Name, errors.New("it went away"))
		}
		return claims.Amendment(claim, key, asked.Charges, asked.Outline, "")
	})
	if err != nil {
		return transient(err)
	}
	if decision.Code != ledger.Admitted {
		return explain.Impossible(asked.Consumer, decision.Code)
	}
	return nil
}

// transient marks an error as one that is worth another try.
func transient(err error) error {
	if err == nil {
		return nil
	}
	return &plan.TransientError{Err: err}
}
