package enforce

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
	"github.com/bursar/bursar/internal/protected"
)

const (
	// appearsWithin is how soon after its review an object appears, unless its create failed or is very slow.
	appearsWithin = 2 * time.Second
	// heldFor is how long a failed create holds its quota: reservationLifetime of package lifecycle.
	heldFor = 70 * time.Second
	// lateMax is how many creates of one owner may be in flight for longer than appearsWithin. Nobody else can use the
	// quota that they hold until heldFor has passed.
	lateMax = 16
	// storedBytesMax is the size of the largest object that etcd takes by default.
	storedBytesMax = 3 << 19
)

// heldOf returns how much of each resource type of a consumer is held by creates whose objects should have appeared by now,
// or that are being decided for another consumer as well.
func (h *Handler) heldOf(consumer quotav1alpha1.ConsumerRef) map[string]ledger.Amount {
	held := map[string]ledger.Amount{}
	for _, pending := range h.Store.ReservationsOf(consumer) {
		if !h.isLate(pending) && !h.deciding.has(types.UID(ledgerstore.ObjectUID(pending.Key))) {
			continue
		}
		for _, charge := range pending.Charges {
			if sum, ok := held[charge.ResourceType].Add(charge.Amount); ok {
				held[charge.ResourceType] = sum
			}
		}
	}
	return held
}

// isLate reports whether the object of a reservation should have appeared by now.
func (h *Handler) isLate(pending ledgerstore.Pending) bool {
	uid := types.UID(ledgerstore.ObjectUID(pending.Key))
	if uid == "" || ledgerstore.IsAmendment(pending.Key) || time.Since(pending.KnownSince) < appearsWithin {
		return false
	}
	outline, err := claims.OutlineOf(pending.Claim)
	if err != nil || outline.Base != "" {
		return false // it exists
	}
	return h.Objects.Presence(outline.Kind.GroupKind(), uid) == protected.Absent
}

// deciding are the objects that hold something of one consumer while they are decided for another. The zero value is
// ready to use.
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

// ownerOf names the owner of a create: the controller that owns the object, or else the user, in a namespace.
func ownerOf(object *unstructured.Unstructured, user string) string {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return fmt.Sprintf("%s %s in namespace %s", owner.Kind, owner.Name, object.GetNamespace())
	}
	if object.GetNamespace() == "" {
		return "user " + user
	}
	return fmt.Sprintf("user %s in namespace %s", user, object.GetNamespace())
}

// tooManyLate returns an error if the owner of an object has lateMax creates whose objects have not appeared. Objects of a kind
// that is being listed may have.
func (h *Handler) tooManyLate(c *create) error {
	late := 0
	for uid, kind := range h.admitted.lateOf(c.owner) {
		if h.Objects.Presence(kind, uid) == protected.Absent {
			late++
		}
	}
	if late >= lateMax {
		return fmt.Errorf("%d creates by %s were admitted but their objects have not appeared, so their quota is %w", late, c.owner, errHeld)
	}
	return nil
}

// isTooLarge reports whether an object is larger than etcd stores. It knows that only of custom kinds, whose objects are
// stored as they are sent.
func isTooLarge(kind schema.GroupVersionKind, content []byte) bool {
	return isStoredAsJSON(kind.Group) && len(content) > storedBytesMax
}

// isStoredAsJSON reports whether the objects of an API group are stored as they are sent: those of groups that are not
// Kubernetes' own.
func isStoredAsJSON(group string) bool {
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// tooLarge denies what the API server could not store.
func tooLarge(content []byte) *admissionv1.AdmissionResponse {
	return review.Refuse(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge,
		"the object has %d bytes, and etcd stores at most %d: make it smaller; no quota was taken for it", len(content), storedBytesMax)
}
