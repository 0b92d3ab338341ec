package quotareview

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/forecast"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Facts are the facts of a decision, besides the policies.
type Facts interface {
	forecast.Ledgers
	// Find returns the UID of an object. It is empty if there is no such object.
	Find(ctx context.Context, kind schema.GroupVersionKind, name types.NamespacedName) (types.UID, error)
	// Held returns the charges of an existing object of a kind, by the label value of the policy.
	Held(kind schema.GroupVersionKind, object types.UID) map[string]Held
}

// Held are the charges of an object by a policy.
type Held struct {
	Consumer quotav1alpha1.ConsumerRef
	Charges  []ledger.Charge
}

// Live are the facts of a running Bursar.
type Live struct {
	Store   *ledgerstore.Store
	Objects *objectcache.Cache
	Claims  *claimcache.Cache
	// Inventory has what the objects demand that count without claims.
	Inventory *inventory.Inventory
}

// Ledger implements [forecast.Ledgers]. Creates admitted from this replica's slice and not recorded yet count as
// used.
func (l Live) Ledger(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (*ledger.Ledger, error) {
	var copied *ledger.Ledger
	var copyErr error
	err := l.Store.View(ctx, consumer, func(current *ledger.Ledger) {
		trial := current.Begin()
		defer trial.Discard()
		l.cancelObserved(consumer, current)
		for _, r := range l.unrecorded(consumer, current) {
			current.ReserveOverdraft(r)
		}
		copied, copyErr = forecast.Copy(current)
	})
	if err != nil {
		return nil, err
	}
	return copied, copyErr
}

// cancelObserved cancels the pending requests whose objects count already: for a moment after a change of policies or
// namespaces, both do.
func (l Live) cancelObserved(consumer quotav1alpha1.ConsumerRef, current *ledger.Ledger) {
	var observed []ledger.Reservation
	for r := range current.Reservations() {
		if l.isObserved(consumer, &r, current) {
			observed = append(observed, r)
		}
	}
	for i := range observed {
		current.Cancel(observed[i].Key, observed[i].Sequence)
	}
}

// unrecorded returns what was admitted from this replica's slice, and what a ledger neither has nor has observed.
func (l Live) unrecorded(consumer quotav1alpha1.ConsumerRef, current *ledger.Ledger) []ledger.Reservation {
	var unrecorded []ledger.Reservation
	for _, r := range l.Store.ReservationsOf(consumer) {
		if r.IsUnrecorded && !l.isObserved(consumer, &r.Reservation, current) {
			unrecorded = append(unrecorded, r.Reservation)
		}
	}
	return unrecorded
}

// isObserved reports whether a ledger has observed the object of a request, or the object was deleted.
func (l Live) isObserved(consumer quotav1alpha1.ConsumerRef, r *ledger.Reservation, current *ledger.Ledger) (is bool) {
	if r.Awaits == nil {
		return false
	}
	observed := current.Observation(r.Awaits.Kind).Basis.Objects
	l.Inventory.View(r.Awaits.Kind, consumer, func(v inventory.View) {
		seen := v.Visibility(r)
		is = seen.IsDeleted || seen.Version > r.Awaits.After && seen.Version <= observed
	})
	return is
}

// Find implements [Facts].
func (l Live) Find(ctx context.Context, kind schema.GroupVersionKind, name types.NamespacedName) (types.UID, error) {
	if err := l.Claims.WaitForSync(ctx); err != nil {
		return "", fmt.Errorf("wait for the list of claims: %w", err)
	}
	if err := l.Objects.WaitForSync(ctx, kind.GroupKind()); err != nil {
		return "", fmt.Errorf("wait for the list of objects of kind %s: %w", kind.GroupKind(), err)
	}
	if err := l.waitCounted(ctx, kind); err != nil {
		return "", err
	}
	uid, _ := l.Objects.UIDOf(kind.GroupKind(), name)
	return uid, nil
}

// waitCounted waits until all objects of a kind are counted that are to be.
func (l Live) waitCounted(ctx context.Context, kind schema.GroupVersionKind) error {
	const poll = 20 * time.Millisecond
	err := wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		counted := l.Inventory.Kind(inventory.NameOf(kind))
		if counted == nil {
			return true, nil
		}
		_, isListed := counted.Basis()
		return isListed, nil
	})
	if err != nil {
		return fmt.Errorf("the objects of kind %s are still being counted", kind.GroupKind())
	}
	return nil
}

// Held implements [Facts].
func (l Live) Held(kind schema.GroupVersionKind, object types.UID) map[string]Held {
	held := map[string]Held{}
	for _, reservation := range l.Store.ReservationsFor(string(object)) {
		policy, _ := ledgerstore.SplitObjectKey(reservation.Key)
		if isGrowth := reservation.Awaits != nil && reservation.Awaits.After > 0; !isGrowth {
			held[policy] = Held{reservation.Consumer, slices.Clone(reservation.Charges)}
		}
	}
	for _, claim := range l.Claims.ForObject(object) {
		if charges, err := claims.Charges(claim.Requests()); err == nil && claim.State == claimcache.Granted {
			held[claim.Policy()] = Held{claim.Consumer(), charges}
		}
	}
	l.addCounted(held, kind, object)
	return held
}

// addCounted adds what an object demands by policies without claims.
func (l Live) addCounted(held map[string]Held, kind schema.GroupVersionKind, object types.UID) {
	counted := l.Inventory.Kind(inventory.NameOf(kind))
	if counted == nil {
		return
	}
	isNothing := func(c ledger.Charge) bool { return c.Amount == 0 }
	for _, demand := range counted.DemandsOf(object) {
		if charges := slices.DeleteFunc(slices.Clone(demand.Charges), isNothing); len(charges) > 0 {
			held[claims.LabelValue(demand.Policy)] = Held{demand.Consumer, charges}
		}
	}
}
