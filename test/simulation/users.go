package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/test/simulation/controlplane"
)

// webhookTimeout is how long the API servers wait for a review, and lateMax bounds the lateness of writes.
const (
	webhookTimeout = 4 * time.Second
	lateMax        = 8 * time.Second
)

// use is the work of a user until ctx ends.
func (w *World) use(ctx context.Context) {
	for pause(ctx, w.upTo(w.shape.pause)) {
		if w.roll(12) == 0 && !pause(ctx, w.upTo(w.shape.quiet)) {
			return
		}
		existing := w.model.existing()
		if w.shape.hasUpdates && len(existing) > 0 && w.roll(4) == 0 {
			w.update(existing[w.roll(len(existing))])
			continue
		}
		switch what := w.roll(100); {
		case what < 30 && len(existing) > 0:
			object := existing[w.roll(len(existing))]
			w.store.Delete(keyOf(object), object.UID)
		case what < 50 && w.shape.hasDirect:
			w.claim()
		case what == 50 && w.shape.hasUnreviewed:
			w.put(w.newMap(int64(1 + w.roll(int(w.shape.amountMax)))))
		case what < 53:
			w.create(w.newMap(int64(1+w.roll(int(w.shape.amountMax)))), true)
		case what < 60 && len(existing) > 0: // of the same name, while it exists or just after
			again := w.newMap(int64(1 + w.roll(int(w.shape.amountMax))))
			last := existing[w.roll(len(existing))]
			if w.roll(2) == 0 {
				w.store.Delete(keyOf(last), last.UID)
			}
			again.Namespace, again.Name = last.Namespace, last.Name
			w.create(again, false)
		default:
			w.create(w.newMap(int64(1+w.roll(int(w.shape.amountMax)))), false)
		}
	}
}

// name returns a new name.
func (w *World) name(prefix string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names++
	return fmt.Sprintf("%s-%d", prefix, w.names)
}

// newMap returns an object not created yet.
func (w *World) newMap(cost int64) *corev1.ConfigMap {
	name := w.name("map")
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: consumer(w.roll(w.shape.consumers)).Name, Name: name, UID: uidOf(name)},
		Data:       map[string]string{"n": strconv.FormatInt(cost, 10)},
	}
}

// uidOf returns the UID of the object with a new name. It ends with the same number.
func uidOf(name string) types.UID {
	_, number, _ := strings.Cut(name, "-")
	return types.UID("00000000-0000-4000-8000-000000000000"[:36-len(number)] + number)
}

func keyOf(object *corev1.ConfigMap) controlplane.Key {
	return controlplane.Key{Resource: "configmaps", Namespace: object.Namespace, Name: object.Name}
}

// create asks for an object as an API server does: it has a replica review it, and stores it within the time of a
// request. It returns the answer, or nil without a decision.
func (w *World) create(object *corev1.ConfigMap, isDryRun bool) *admissionv1.AdmissionResponse {
	began := time.Now()
	answer := w.ask(&request{object: object, isDryRun: isDryRun})
	if answer != nil && answer.Allowed && !isDryRun && w.reachesStore(began) {
		w.put(object)
	}
	return answer
}

// put stores a new object.
func (w *World) put(object *corev1.ConfigMap) {
	if _, err := w.store.Create(keyOf(object), object); err != nil {
		w.note("map %s is there already", object.Name)
	}
}

// update changes the cost of an object, as an API server does it, or without a review.
func (w *World) update(before *corev1.ConfigMap) {
	after := before.DeepCopy()
	after.Data["n"] = strconv.Itoa(w.roll(int(w.shape.amountMax) + 2))
	began, isReviewed := time.Now(), w.shape.followsUpdates && !(w.shape.hasUnreviewed && w.roll(3) == 0)
	if isReviewed {
		if answer := w.ask(&request{object: after, before: before}); answer == nil || !answer.Allowed || !w.reachesStore(began) {
			return
		}
	}
	if err := w.store.Update(keyOf(after), after); err != nil {
		w.note("map %s has changed meanwhile", after.Name)
	}
}

// reachesStore waits until an admitted request of a time reaches etcd. It reports false if it never does.
func (w *World) reachesStore(began time.Time) bool {
	if !w.calm() {
		switch w.roll(20) {
		case 0: // another webhook denies it, or the client goes
			return false
		case 1: // the API server stands still
			time.Sleep(w.upTo(2 * requestTimeout))
		default:
			time.Sleep(w.upTo(w.shape.latency))
		}
	}
	return time.Since(began) <= requestTimeout+lateMax
}

// request is a user's request to create an object or, with one before, to change it.
type request struct {
	object, before *corev1.ConfigMap
	isDryRun       bool
}

// growth is what the request adds to the cost of its object.
func (r *request) growth() int64 {
	if r.before == nil {
		return costOf(r.object)
	}
	return max(0, costOf(r.object)-costOf(r.before))
}

// ask has a replica review a request, and returns the answer, or nil without a decision.
func (w *World) ask(r *request) *admissionv1.AdmissionResponse {
	asked := w.model.ask(r)
	answer := w.review(r)
	w.model.answered(asked, answer)
	w.countAnswer(answer)
	return answer
}

func (w *World) countAnswer(answer *admissionv1.AdmissionResponse) {
	switch {
	case answer == nil:
		w.count("unanswered")
	case answer.Allowed:
		w.count("admitted")
	case answer.Result.Code == 403:
		w.count("refused")
	default:
		w.count("undecided")
	}
}

// review has a replica review a request, and returns its answer.
func (w *World) review(r *request) *admissionv1.AdmissionResponse {
	object := r.object
	reviewed := &admissionv1.AdmissionRequest{
		UID: "review", Operation: admissionv1.Create, DryRun: &r.isDryRun, Object: runtime.RawExtension{Raw: encoded(object)},
		Namespace: object.Namespace, Name: object.Name,
		Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"},
	}
	if r.before != nil {
		reviewed.UID, reviewed.Operation = types.UID(w.name("update")), admissionv1.Update
		reviewed.OldObject = runtime.RawExtension{Raw: encoded(r.before)}
	}
	reviewed.UserInfo.Username = object.Name // with one user, most would wait for the failing ones
	body := encoded(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Request: reviewed,
	})
	ctx, cancel := context.WithTimeout(w.t.Context(), webhookTimeout)
	defer cancel()
	h := w.hosts[w.roll(len(w.hosts))]
	content, ok := h.call(ctx, w.webhookPath(), body, false)
	if !ok {
		w.note("host %d does not answer for map %s", h.number, object.Name)
		return nil
	}
	var answer admissionv1.AdmissionReview
	w.must(json.Unmarshal(content, &answer))
	result := ""
	if answer.Response.Result != nil {
		result = answer.Response.Result.Message
	}
	w.note("host %d answers for map %s (%s) after version %q for %s: %t %s", h.number, object.Name, object.UID, object.ResourceVersion, object.Data["n"],
		answer.Response.Allowed, result)
	return answer.Response
}

// claim creates or deletes a claim. A deleted claim stays while it pays for an existing object.
func (w *World) claim() {
	paying, made := w.model.liveClaims()
	if len(paying) > 0 && w.roll(6) == 0 {
		made = paying
	}
	if len(made) > 2 || len(made) > 0 && w.roll(2) == 0 {
		claim := made[w.roll(len(made))]
		w.store.Delete(controlplane.Key{Resource: "resourceclaims", Namespace: claim.Namespace, Name: claim.Name}, claim.UID)
		return
	}
	w.createClaim(consumer(w.roll(w.shape.consumers)), w.name("claim"), int64(1+w.roll(5)))
}
