package quotareview

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/forecast"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Facts are the facts of a decision, besides the policies.
type Facts interface {
	forecast.Ledgers
	// Find returns the UID of an object. It is empty if there is no such object.
	Find(ctx context.Context, kind schema.GroupKind, name types.NamespacedName) (types.UID, error)
	// Held returns the charges of an existing object, by the label value of the policy.
	Held(object types.UID) map[string]Held
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
}

// Ledger implements [forecast.Ledgers]. Creates admitted from this replica's slice and not recorded yet count as
// used.
func (l Live) Ledger(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (*ledger.Ledger, error) {
	var copied *ledger.Ledger
	var copyErr error
	if err := l.Store.View(ctx, consumer, func(current *ledger.Ledger) { copied, copyErr = forecast.Copy(current) }); err != nil {
		return nil, err
	}
	if copyErr != nil {
		return nil, copyErr
	}
	for _, r := range l.Store.ReservationsOf(consumer) {
		if r.IsUnrecorded && copied.ReserveOverdraft(r.Reservation).Code == ledger.Admitted {
			copied.Settle(r.Key, 0)
		}
	}
	return copied, nil
}

// Find implements [Facts].
func (l Live) Find(ctx context.Context, kind schema.GroupKind, name types.NamespacedName) (types.UID, error) {
	if err := l.Claims.WaitForSync(ctx); err != nil {
		return "", fmt.Errorf("wait for the list of claims: %w", err)
	}
	if err := l.Objects.WaitForSync(ctx, kind); err != nil {
		return "", fmt.Errorf("wait for the list of objects of kind %s: %w", kind, err)
	}
	uid, _ := l.Objects.UIDOf(kind, name)
	return uid, nil
}

// Held implements [Facts].
func (l Live) Held(object types.UID) map[string]Held {
	held := map[string]Held{}
	for _, reservation := range l.Store.ReservationsFor(string(object)) {
		policy, _ := ledgerstore.SplitObjectKey(reservation.Key)
		if len(reservation.Replaces) == 0 {
			held[policy] = Held{reservation.Consumer, slices.Clone(reservation.Charges)}
		}
	}
	for _, claim := range l.Claims.ForObject(object) {
		if charges, err := claims.Charges(claim.Requests()); err == nil && claim.State == claimcache.Granted {
			held[claim.Policy()] = Held{claim.Consumer(), charges}
		}
	}
	return held
}
