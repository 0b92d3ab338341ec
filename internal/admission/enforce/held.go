package enforce

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

const (
	// appearsWithin is the time from review to appearance of an object, unless its create failed or is very slow.
	appearsWithin = 2 * time.Second
	// lateMax bounds an owner's creates in flight for longer than appearsWithin. The quota that they hold is unavailable
	// to others until the lifetime of a reservation has passed.
	lateMax = 16
	// defaultMaxObjectBytes is the default size limit of etcd.
	defaultMaxObjectBytes = 3 << 19
)

// heldOf returns the reservations on a consumer's quota by creates of uncertain success: the object is overdue, or a
// decision for another consumer is still under way.
func (h *Handler) heldOf(consumer quotav1alpha1.ConsumerRef) []ledgerstore.InFlight {
	return slices.DeleteFunc(h.Store.ReservationsOf(consumer), func(pending ledgerstore.InFlight) bool {
		return !h.isLate(pending) && !h.deciding.has(types.UID(ledgerstore.ObjectUID(pending.Key)))
	})
}

// fitsWithout reports whether the request fits after a cancellation of these reservations. An error means that the
// ledger was unreadable.
func (h *Handler) fitsWithout(ctx context.Context, l lack, held []ledgerstore.InFlight) (bool, error) {
	amounts := amountsOf(held)
	for _, s := range l.shortages {
		if amounts[s.ResourceType] < s.Requested-s.Available {
			return false, nil // no need to read the ledger
		}
	}
	var snapshot ledger.Snapshot
	if err := h.Store.View(ctx, l.consumer, func(current *ledger.Ledger) { snapshot = current.Snapshot() }); err != nil {
		return false, err
	}
	rest, err := ledger.Restore(snapshot)
	if err != nil {
		return false, err
	}
	for _, pending := range held {
		rest.Cancel(pending.Key, pending.Sequence)
	}
	charges := make([]ledger.Charge, 0, len(l.shortages))
	for _, s := range l.shortages {
		charges = append(charges, ledger.Charge{ResourceType: s.ResourceType, Dimensions: s.Dimensions, Amount: s.Requested})
	}
	return rest.Check(charges).Code == ledger.Admitted, nil
}

// amountsOf returns the sum of reservations by resource type.
func amountsOf(held []ledgerstore.InFlight) map[string]ledger.Amount {
	amounts := map[string]ledger.Amount{}
	for _, pending := range held {
		for _, charge := range pending.Charges {
			if sum, ok := amounts[charge.ResourceType].Add(charge.Amount); ok {
				amounts[charge.ResourceType] = sum
			}
		}
	}
	return amounts
}

// isLate reports whether the object of a reservation is overdue.
func (h *Handler) isLate(pending ledgerstore.InFlight) bool {
	uid := types.UID(ledgerstore.ObjectUID(pending.Key))
	if uid == "" || ledgerstore.IsAmendment(pending.Key) || time.Since(pending.KnownSince) < appearsWithin {
		return false
	}
	intent, err := claims.IntentOf(pending.Claim)
	if err != nil || intent.Base != "" {
		return false // the object exists
	}
	return h.Objects.Presence(intent.Kind.GroupKind(), uid) == objectcache.Absent
}

// deciding is the set of objects with quota of one consumer, during the decision for another. The zero value is ready
// to use.
type deciding struct {
	mu   sync.Mutex
	uids map[types.UID]int
}

func (d *deciding) add(uid types.UID, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uids == nil {
		d.uids = map[types.UID]int{}
	}
	if d.uids[uid] += n; d.uids[uid] == 0 {
		delete(d.uids, uid)
	}
}

func (d *deciding) has(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.uids[uid] > 0
}

// ownerOf names the owner of a create: the object's controller, or else the user in a namespace.
func ownerOf(object *unstructured.Unstructured, user string) string {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return fmt.Sprintf("%s %s in namespace %s", owner.Kind, owner.Name, object.GetNamespace())
	}
	if object.GetNamespace() == "" {
		return "user " + user
	}
	return fmt.Sprintf("user %s in namespace %s", user, object.GetNamespace())
}

// tooManyLate returns an error if the owner of an object has lateMax overdue creates. It ignores objects of kinds
// that are still being listed, because they may have appeared.
func (h *Handler) tooManyLate(c *create) error {
	late := 0
	for uid, kind := range h.admitted.lateOf(c.owner) {
		if h.Objects.Presence(kind, uid) == objectcache.Absent {
			late++
		}
	}
	if late >= lateMax {
		return fmt.Errorf("%d creates by %s were admitted but their objects have not appeared, so their quota is %w", late, c.owner, errHeld)
	}
	return nil
}

// isStoredAsJSON reports whether the API server stores objects of an API group in the form of the request. It does
// for all groups except those of Kubernetes itself.
func isStoredAsJSON(group string) bool {
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// tooLarge denies an object that the API server could not store.
func tooLarge(size, most int) *admissionv1.AdmissionResponse {
	return review.Denied(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge,
		"the object has %d bytes, and etcd stores at most %d: make it smaller; no quota was taken for it", size, most)
}
