package enforce

import (
	"context"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/audited"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// endTimeout bounds the search for the object of an ended create.
const endTimeout = 5 * time.Second

// announce has the API server report the end of an admitted request to this replica, see [Handler.End].
func announce(answer *admissionv1.AdmissionResponse, request *admissionv1.AdmissionRequest, object evaluator.Object, consumer quotav1alpha1.ConsumerRef) {
	if !answer.Allowed {
		return
	}
	r := audited.Review{
		ID: request.UID, Group: object.Kind.Group, Kind: object.Kind.Kind, UID: object.UID,
		IsUpdate: request.Operation == admissionv1.Update, Consumer: consumer,
	}
	answer.AuditAnnotations = r.Annotations()
}

// End implements [audited.Ender]. It does nothing for a create decided by another process: only the process behind a
// decision knows whether other creates rely on its reservations.
func (h *Handler) End(r audited.Review) {
	o := engine.Object{Kind: r.GroupKind(), UID: r.UID}
	if r.IsUpdate {
		h.Engine.EndUpdate(o, r.ID)
		return
	}
	if name, isReplaced := h.replaced.nameOf(o.UID); isReplaced {
		go h.endReplaced(o, name)
		return
	}
	h.endAdmitted(o)
}

// endAdmitted ends the reservations of an object with an ended create, unless an earlier object of its name may still
// appear: that one needs them.
func (h *Handler) endAdmitted(o engine.Object) {
	if !h.admitted.isSole(o.UID) || h.replaced.end(o.UID) {
		return
	}
	h.Engine.EndCreate(o)
	h.admitted.remove(o.UID)
}

// endReplaced looks for an object with an ended create and with reservations taken over by another create. If it does
// not exist, nothing needs its reservations any more.
func (h *Handler) endReplaced(o engine.Object, name types.NamespacedName) {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if exists, err := h.Objects.IsAlive(ctx, o.Kind, name, o.UID); exists || err != nil {
		return
	}
	for _, ended := range h.replaced.forget(o.UID) {
		h.endAdmitted(engine.Object{Kind: o.Kind, UID: ended})
	}
	h.endAdmitted(o) // the takeover may have failed
}

// isSole reports whether this process admitted an object that has yet to appear, and made all of its reservations.
func (a *admittedObjects) isSole(uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	object := a.byUID[uid]
	return object != nil && !object.isShared
}

// hasOthers reports whether another review of the same create made some of the reservations. It may have taken over
// those of an earlier create. Those taken over by this review are no others.
func hasOthers(evaluated []*evaluatedClaim, outcome ledgerstore.Outcome) bool {
	for i, decision := range outcome.Decisions {
		policy, _ := ledgerstore.SplitObjectKey(evaluated[i].Key)
		isTaken := slices.ContainsFunc(outcome.Taken, func(key string) bool {
			taken, _ := ledgerstore.SplitObjectKey(key)
			return taken == policy
		})
		if decision.Existing && !isTaken {
			return true
		}
	}
	return false
}
