package enforce

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

const (
	// appearsWithin is the time from review to appearance of an object, unless its create failed or is very slow.
	appearsWithin = 2 * time.Second
	// defaultMaxObjectBytes is the default size limit of etcd.
	defaultMaxObjectBytes = 3 << 19
	// intentsMax bounds the remembered payloads of reservations.
	intentsMax = 4096
)

// unconfirmedReservations returns the reservations of a consumer by requests without a visible effect: creates without
// an object, and updates in flight. hasYoung is true if one of them is so young that its effect may just be on its way.
func (h *Handler) unconfirmedReservations(consumer quotav1alpha1.ConsumerRef) (held []ledgerstore.InFlight, hasYoung bool) {
	held = slices.DeleteFunc(h.Store.ReservationsOf(consumer), func(pending ledgerstore.InFlight) bool { return !h.isUnconfirmed(pending) })
	return held, slices.ContainsFunc(held, isYoung)
}

// Overdue returns the reservations of a consumer by requests without a visible effect that have had time for it.
// mayBecome is true if others may soon be overdue, too.
func (h *Handler) Overdue(consumer quotav1alpha1.ConsumerRef) (overdue []ledgerstore.InFlight, mayBecome bool) {
	held, hasYoung := h.unconfirmedReservations(consumer)
	return slices.DeleteFunc(held, isYoung), hasYoung
}

func isYoung(pending ledgerstore.InFlight) bool {
	return time.Since(pending.KnownSince) < appearsWithin
}

// isUnconfirmed reports whether a reservation is that of a request without a visible effect. A directly created claim
// exists.
func (h *Handler) isUnconfirmed(pending ledgerstore.InFlight) bool {
	uid := types.UID(ledgerstore.ObjectUID(pending.Key))
	if uid == "" {
		return false
	}
	if !pending.AwaitsClaim() {
		return !h.Store.HasSeen(pending) // the ledger observes the effect with its next decision
	}
	kind, ok := h.kindOfIntent(pending.Claim)
	return ok && (h.deciding.has(uid) || h.Objects.Presence(kind, uid) == objectcache.Absent)
}

// kindOfIntent decodes an intent once, because a denial looks at all reservations in flight.
func (h *Handler) kindOfIntent(encoded string) (kind schema.GroupKind, ok bool) {
	if known, ok := h.intents.Get(encoded); ok {
		return known.(schema.GroupKind), true
	}
	intent, err := claims.IntentOf(encoded)
	if err != nil {
		return schema.GroupKind{}, false
	}
	kind = intent.Kind.GroupKind()
	h.intents.Add(encoded, kind)
	return kind, true
}

// fitsWithout reports whether the request would fit after a cancellation of these reservations. An error means that the
// ledger was unreadable.
func (h *Handler) fitsWithout(ctx context.Context, l lack, held []ledgerstore.InFlight) (bool, error) {
	amounts := amountsOf(held)
	for _, s := range l.shortages {
		if amounts[s.ResourceType] < s.Requested-s.Available {
			return false, nil // no need to read the ledger
		}
	}

	charges := make([]ledger.Charge, 0, len(l.shortages))
	for _, s := range l.shortages {
		charges = append(charges, ledger.Charge{ResourceType: s.ResourceType, Dimensions: s.Dimensions, Amount: s.Requested})
	}

	var fits bool
	err := h.Store.View(ctx, l.consumer, func(current *ledger.Ledger) {
		trial := current.Begin()
		defer trial.Discard()
		current.DropSlices("") // the denial is without slices, too
		for _, pending := range held {
			current.Cancel(pending.Key, pending.Sequence)
		}
		fits = current.Check(charges).Code == ledger.Admitted
	})
	if err != nil {
		return false, err // and fits may still be written
	}
	return fits, nil
}

// amountsOf returns the sum of reservations by resource type.
func amountsOf(held []ledgerstore.InFlight) map[string]ledger.Amount {
	amounts := map[string]ledger.Amount{}
	for _, pending := range held {
		for _, charge := range pending.Charges {
			amounts[charge.ResourceType] = amounts[charge.ResourceType].AddUpTo(charge.Amount)
		}
	}
	return amounts
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

// trackRequest adds a request for quota of one consumer to those of its requester, and returns what has to be left to
// others, and how many requests there were before. An update names its policy. It returns nil while the kind is being
// listed, because nobody knows then which objects have appeared.
func (h *Handler) trackRequest(requester string, consumer quotav1alpha1.ConsumerRef, o evaluator.Object, policy string, charges []ledger.Charge) (*attempt, ledgerstore.Spare, int) {
	kind := o.Kind.GroupKind()
	if len(charges) == 0 || !h.Objects.IsListed(kind) {
		return nil, ledgerstore.Spare{}, 0
	}
	h.unconfirmed.end(o.UID, h.hasEnded)
	return h.unconfirmed.begin(requestKey{o.UID, policy}, share{requester, consumer}, kind, charges, h.expireTracked)
}

// expireTracked forgets a request at the end of its lifetime, and remembers for a while that it seems to have failed.
func (h *Handler) expireTracked(r *heldRequest) {
	if h.hasEnded(r) {
		h.unconfirmed.drop(r)
		return
	}
	h.unconfirmed.fail(r, h.expireTracked)
}

// confirmTracked keeps a request that reserved quota among those of its requester. a may be nil.
func (h *Handler) confirmTracked(a *attempt, isReserved bool) {
	if a != nil {
		h.unconfirmed.conclude(a, isReserved)
	}
}

// hasEnded reports whether a request no longer holds the quota that it reserved, or its object exists.
func (h *Handler) hasEnded(r *heldRequest) bool {
	if !h.unconfirmed.isDecided(r) {
		return false
	}
	if !r.isUpdate() && h.Objects.Presence(r.kind, r.uid) == objectcache.Present {
		return true
	}
	return !slices.ContainsFunc(h.Store.ReservationsFor(string(r.uid)), func(pending ledgerstore.InFlight) bool {
		return pending.Consumer == r.share.consumer && !h.Store.HasSeen(pending)
	})
}

// Modified ends the requests to change an object whose reservations have ended. It is an [objectcache.Handler].
func (h *Handler) Modified(_ schema.GroupKind, uid types.UID) {
	h.unconfirmed.end(uid, func(r *heldRequest) bool { return r.isUpdate() && h.hasEnded(r) })
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
