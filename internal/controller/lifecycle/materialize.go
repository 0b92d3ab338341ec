package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// materialize turns a reservation into a granted claim and settles it. Each step may be found
// done already, by an attempt that ended early. It reports false if the reservation turned out to
// be a second one for a claim that is charged, and was cancelled.
func (c *Controller) materialize(ctx context.Context, reservation ledgerstore.InFlight) (isMade bool, err error) {
	claim, err := claims.FromReservation(reservation)
	if err != nil {
		return false, err
	}
	stored, err := c.ensureClaim(ctx, claim, reservation)
	if err != nil || stored == nil {
		return false, err
	}
	if claimcache.StateOf(stored) != claimcache.Granted {
		if isCurrent, isMade, err := c.confirm(ctx, stored, reservation); !isCurrent || err != nil {
			return isMade, err
		}
		claims.Grant(stored, c.Catalog, time.Now())
		if err := c.Client.UpdateStatus(ctx, stored); err != nil {
			return false, fmt.Errorf("mark claim %s/%s as granted: %w", stored.Namespace, stored.Name, err)
		}
	}
	c.settle(stored, reservation)
	return true, nil
}

// confirm makes sure that the reservation of a claim that is about to be granted is in the books as they
// are now. Another process may have made a claim of the same reservation long ago, and released it, while
// this one stood still or its create was on its way. This claim would be granted without a charge, and its
// release take the charge of somebody else. So it goes again. One that was granted meanwhile is made.
//
// What is confirmed stays true until the claim is granted, or the claim will give nothing back: whoever
// settles or releases it first changes the claim, and then its status cannot be written here any more, and
// whoever withdraws the reservation takes the claim away.
func (c *Controller) confirm(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) (isCurrent, isMade bool, err error) {
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	isCurrent, err = c.isReserved(ctx, reservation)
	if err != nil {
		return false, false, fmt.Errorf("confirm that claim %s is charged: %w", name, err)
	}
	if isCurrent {
		return true, false, nil
	}
	live, err := c.Client.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("read claim %s: %w", name, err)
	case live.UID == claim.UID && claimcache.StateOf(live) == claimcache.Granted:
		return false, true, nil
	}
	return false, false, c.deleteClaim(ctx, name, claim.UID)
}

// isReserved tells whether a reservation is in the books as they are now.
func (c *Controller) isReserved(ctx context.Context, reservation ledgerstore.InFlight) (is bool, err error) {
	err = c.Store.View(ctx, reservation.Consumer, func(books *ledger.Ledger) {
		held, ok := books.Reservation(reservation.Key)
		is = ok && held.Sequence == reservation.Sequence
	})
	return is, err
}

// errEarlierClaim says that the name of a new claim is that of an earlier one, of another object or
// consumer, which is on its way out.
var errEarlierClaim = errors.New("an earlier claim of that name is still there")

// ensureClaim returns the claim of the reservation as it is stored, creating it if need be. It
// returns nil if the reservation turns out to be a second one for a claim that is charged.
//
// A name that is taken by the claim of something else is no obstacle: there is a second one.
func (c *Controller) ensureClaim(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) (*quotav1alpha1.ResourceClaim, error) {
	for _, name := range []string{claim.Name, otherName(claim, reservation)} {
		named := claim.DeepCopy()
		named.Name = name
		created, err := c.create(ctx, named, reservation)
		if !apierrors.IsAlreadyExists(err) {
			return created, err
		}
		stored, err := c.Client.Get(ctx, types.NamespacedName{Namespace: named.Namespace, Name: name})
		if err != nil {
			return nil, fmt.Errorf("read claim %s/%s: %w", named.Namespace, name, err)
		}
		switch {
		case sameOrigin(stored, claim) && sameReservation(stored, claim):
			return stored, nil
		case sameOrigin(stored, claim) && (stored.DeletionTimestamp != nil || claims.IsSuperseded(stored) || stored.Spec.ConsumerRef != claim.Spec.ConsumerRef):
			return nil, fmt.Errorf("claim %s/%s: %w", named.Namespace, name, errEarlierClaim)
		case sameOrigin(stored, claim):
			return nil, c.endSecond(ctx, stored, reservation)
		case isOfEarlierObject(stored, claim):
			return nil, fmt.Errorf("claim %s/%s: %w", named.Namespace, name, errEarlierClaim)
		}
	}
	return nil, fmt.Errorf("both names of claim %s/%s are taken by other claims", claim.Namespace, claim.Name)
}

// endSecond ends one of two: a reservation, and the claim that its object has already of another one. If
// the claim is granted, the create was reviewed twice, and the reservation goes. If not, whichever is not
// in the books is out of date.
func (c *Controller) endSecond(ctx context.Context, stored *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) error {
	if claimcache.StateOf(stored) == claimcache.Granted {
		made, err := c.withdraw(ctx, reservation)
		if made == nil || err != nil {
			return err
		}
		return c.supersede(ctx, made)
	}
	if isReserved, err := c.isReserved(ctx, reservation); !isReserved || err != nil {
		return err
	}
	if err := c.supersede(ctx, stored); err != nil {
		return err
	}
	return fmt.Errorf("claim %s/%s: %w", stored.Namespace, stored.Name, errEarlierClaim)
}

// create creates a claim, in the system namespace if its own went away since the create of the
// object was admitted, or refuses claims: the charge has to live somewhere. The claim says where it is.
func (c *Controller) create(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) (*quotav1alpha1.ResourceClaim, error) {
	created, err := c.Client.Create(ctx, claim)
	moves := isNamespaceUnusable(err)
	switch {
	case claim.Namespace == c.SystemNamespace:
		moves = false
	case err == nil:
		c.refusals.end(claim.Namespace)
	case isRefusal(err) && !moves:
		var made *quotav1alpha1.ResourceClaim
		var errFind error
		if made, moves, errFind = c.refused(ctx, claim, reservation, err); made != nil || errFind != nil {
			return made, errFind
		}
	}
	if moves {
		claim.Namespace, claim.OwnerReferences = c.SystemNamespace, nil
		created, err = c.Client.Create(ctx, claim)
	}
	if err != nil {
		return nil, fmt.Errorf("create claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return created, nil
}

// isOfEarlierObject tells whether the same policy made the stored claim for an object that had
// the same name before.
func isOfEarlierObject(stored, claim *quotav1alpha1.ResourceClaim) bool {
	return claimcache.IsFromPolicy(stored) && claims.PolicyOf(stored) == claims.PolicyOf(claim) &&
		stored.Spec.ResourceRef == claim.Spec.ResourceRef &&
		stored.Annotations[quotav1alpha1.AnnotationResourceUID] != claim.Annotations[quotav1alpha1.AnnotationResourceUID]
}

// otherName is what the claim of a reservation is called when its own name is taken.
func otherName(claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) string {
	return claims.GeneratedName(claim.Name+"-", reservation.Key, types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID]))
}

// findClaim returns the claim that was made from a reservation, or nil.
func (c *Controller) findClaim(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) (*quotav1alpha1.ResourceClaim, error) {
	return c.find(ctx, claim, reservation, func(stored *quotav1alpha1.ResourceClaim) bool {
		return sameOrigin(stored, claim) && sameReservation(stored, claim)
	})
}

// Lookup returns the claim that a policy made for an object of which it asks this, from whatever
// reservation. It finds nil as well if the object had another name for its claim when that was made.
func (c *Controller) Lookup(ctx context.Context, asked *evaluator.Claim) (*quotav1alpha1.ResourceClaim, error) {
	reservation := ledgerstore.InFlight{Consumer: asked.Consumer, Reservation: ledger.Reservation{
		Key: asked.Key, Charges: asked.Charges, Claim: asked.Intent.Encode(),
	}}
	claim, err := claims.FromReservation(reservation)
	if err != nil {
		return nil, err
	}
	return c.find(ctx, claim, reservation, func(stored *quotav1alpha1.ResourceClaim) bool { return sameOrigin(stored, claim) })
}

// find reads a claim from the API server, wherever materialize may have put it.
func (c *Controller) find(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight, is func(stored *quotav1alpha1.ResourceClaim) bool) (*quotav1alpha1.ResourceClaim, error) {
	for _, name := range []types.NamespacedName{
		{Namespace: claim.Namespace, Name: claim.Name},
		{Namespace: claim.Namespace, Name: otherName(claim, reservation)},
		{Namespace: c.SystemNamespace, Name: claim.Name},
		{Namespace: c.SystemNamespace, Name: otherName(claim, reservation)},
	} {
		stored, err := c.Client.Get(ctx, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read claim %s: %w", name, err)
		}
		if is(stored) {
			return stored, nil
		}
	}
	return nil, nil
}

// IsMade tells whether the claim of a reservation was made, be it granted and in the cache already
// or not. While the caller holds the lock of the object, none is made.
func (c *Controller) IsMade(ctx context.Context, reservation ledgerstore.InFlight) (bool, error) {
	claim, err := claims.FromReservation(reservation)
	if err != nil {
		return false, err
	}
	made, err := c.findClaim(ctx, claim, reservation)
	return made != nil, err
}

// cancelUnmade cancels a reservation, unless its claim was made: then it finishes that, and reports
// true. The cache cannot tell, because it may not show the claim yet.
func (c *Controller) cancelUnmade(ctx context.Context, reservation ledgerstore.InFlight) (isMade bool, err error) {
	if isMade, err = c.IsMade(ctx, reservation); err != nil {
		return false, err
	}
	if isMade {
		_, err = c.materialize(ctx, reservation)
		return true, err
	}
	made, err := c.withdraw(ctx, reservation)
	if made == nil || err != nil {
		return false, err
	}
	return true, c.supersede(ctx, made)
}

// withdraw ends a reservation. It returns the claim that was made from it nevertheless, maybe by another
// process at this moment, or nil. That claim is charged to nobody from now on, and the caller has to take
// it away.
func (c *Controller) withdraw(ctx context.Context, reservation ledgerstore.InFlight) (made *quotav1alpha1.ResourceClaim, err error) {
	claim, err := claims.FromReservation(reservation)
	if err != nil {
		return nil, err
	}
	isWithdrawn, err := c.Store.Withdraw(ctx, reservation.Consumer, reservation.Key, reservation.Sequence)
	if !isWithdrawn || err != nil {
		return nil, err // if it had ended before, so has whatever was to be done about its claim
	}
	made, err = c.findClaim(ctx, claim, reservation)
	if made == nil && err == nil {
		c.Store.Forget(reservation.Consumer, ledgerstore.WithdrawnID(ledgerstore.ObjectUID(reservation.Key), reservation.Sequence))
	}
	return made, err
}

// sameOrigin tells whether both claims are of one policy and one object.
func sameOrigin(a, b *quotav1alpha1.ResourceClaim) bool {
	return claimcache.IsFromPolicy(a) &&
		a.Annotations[quotav1alpha1.AnnotationResourceUID] == b.Annotations[quotav1alpha1.AnnotationResourceUID] &&
		claims.PolicyOf(a) == claims.PolicyOf(b)
}

// sameReservation tells whether both claims are made from one reservation. Each consumer's are
// numbered by themselves.
func sameReservation(a, b *quotav1alpha1.ResourceClaim) bool {
	return a.Spec.ConsumerRef == b.Spec.ConsumerRef && claims.SequenceOf(a) == claims.SequenceOf(b)
}

// objectOf returns the object that a reservation is for; claims created directly have none.
func objectOf(reservation ledgerstore.InFlight) (object, bool) {
	uid := ledgerstore.ObjectUID(reservation.Key)
	if uid == "" {
		return object{}, false
	}
	intent, err := claims.IntentOf(reservation.Claim)
	if err != nil {
		return object{}, false
	}
	return object{intent.Kind.GroupKind(), types.UID(uid)}, true
}

// isNamespaceUnusable tells whether a claim could not be created because of its namespace.
func isNamespaceUnusable(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
