package resourcequota

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/allocation/allocationstore"
	"github.com/bursar/bursar/internal/allocation/allocationstore/storagetest"
	"github.com/bursar/bursar/internal/catalog"
)

// team is the label of a member namespace, and its selector.
var team = map[string]string{"team": "acme"}

// world is a handler with the real ledgers, in memory. Requests are for the namespace web.
type world struct {
	*testing.T
	handler *Handler
	stored  *storagetest.Memory
	// used is the usage of each member namespace.
	used map[string]corev1.ResourceList
	// asked are the allocations that received a request.
	asked []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, stored: storagetest.NewMemory(), used: map[string]corev1.ResourceList{}}
	ready := make(chan struct{})
	close(ready)
	w.handler = New(Dependencies{
		Catalog: catalog.New(),
		Ledgers: noting{allocationstore.New(t.Context(), w.stored, w), w},
		Namespaces: namespaces(func() (*metav1.PartialObjectMetadata, error) {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: team, ResourceVersion: "1"}}, nil
		}),
		Permissions: permissions(func(user string, what authorizationv1.ResourceAttributes) (bool, error) {
			return what.Verb == "update" && user == "editor", nil
		}),
		Ready: ready, Username: "bursar",
		Declared: gate(func(context.Context, catalog.Digest) error { return nil }),
		Log:      testr.New(t),
	})
	return w
}

// WaitForSync, Refresh and Observe make the world the cluster that the ledgers observe.
func (w *world) WaitForSync(context.Context) error        { return nil }
func (w *world) Refresh(context.Context, time.Time) error { return nil }
func (w *world) Observe(labels.Selector, allocation.Scopes, []allocation.QuotaChange) allocation.Observation {
	return allocation.Observation{Versions: quotav1alpha1.ObservedResourceQuotas{ResourceQuotas: "1", Namespaces: "1"}, Used: w.used}
}

// allocation caps the projects of the team.
func (w *world) allocation(name string, hard ...string) *quotav1alpha1.ResourceQuotaAllocation {
	w.Helper()
	object := &quotav1alpha1.ResourceQuotaAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1},
		Spec: quotav1alpha1.ResourceQuotaAllocationSpec{
			Selector: metav1.LabelSelector{MatchLabels: team}, Allocation: corev1.ResourceQuotaSpec{Hard: list(hard...)},
		},
	}
	return w.declare(object)
}

func (w *world) declare(object *quotav1alpha1.ResourceQuotaAllocation) *quotav1alpha1.ResourceQuotaAllocation {
	w.Helper()
	w.stored.Put(object)
	if err := w.handler.Catalog.SetAllocation(object); err != nil {
		w.Fatal(err)
	}
	return object
}

// noting records the requests to the ledgers.
type noting struct {
	*allocationstore.Store
	w *world
}

func (n noting) Admit(ctx context.Context, name string, request allocationstore.Request) (allocationstore.Outcome, error) {
	if !request.IsDryRun {
		n.w.asked = append(n.w.asked, name)
	}
	return n.Store.Admit(ctx, name, request)
}

// review asks about a request, as an API server with a webhook timeout of two seconds.
func (w *world) review(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	w.Helper()
	return w.reviewAt(catalog.Digest(0).String(), request)
}

func (w *world) reviewAt(version string, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	w.Helper()
	request.UID = "review"
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	}
	r := httptest.NewRequestWithContext(w.Context(), http.MethodPost, "/?timeout=3s", bytes.NewReader(encode(w, review)))
	r.SetPathValue("version", version)
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); recorder.Code != http.StatusOK || err != nil {
		w.Fatalf("status %d: %s", recorder.Code, recorder.Body)
	}
	if answer.Response.UID != request.UID {
		w.Errorf("the answer is to %q", answer.Response.UID)
	}
	return answer.Response
}

func (w *world) wantAllowed(answer *admissionv1.AdmissionResponse) {
	w.Helper()
	if !answer.Allowed {
		w.Errorf("it is refused: %s", answer.Result.Message)
	}
}

// wantStatus checks the code of a denial, and the parts of its sentence.
func (w *world) wantStatus(answer *admissionv1.AdmissionResponse, code int32, parts ...string) {
	w.Helper()
	if answer.Allowed {
		w.Error("it is allowed")
		return
	}
	if answer.Result.Code != code || answer.Result.Status != metav1.StatusFailure {
		w.Errorf("got %s %d %s, want code %d: %s", answer.Result.Status, answer.Result.Code, answer.Result.Reason, code, answer.Result.Message)
	}
	for _, part := range parts {
		if !strings.Contains(answer.Result.Message, part) {
			w.Errorf("%q does not say %q", answer.Result.Message, part)
		}
	}
}

// wantUndecided checks for the advice to try again.
func (w *world) wantUndecided(answer *admissionv1.AdmissionResponse, code int32, parts ...string) {
	w.Helper()
	w.wantStatus(answer, code, append(parts, "nothing was changed, try again")...)
	if !answer.Allowed && (answer.Result.Details == nil || answer.Result.Details.RetryAfterSeconds == 0) {
		w.Errorf("clients are not told when to try again: %v", answer.Result.Details)
	}
}

// wantPending checks the number of pending raises of each named allocation.
func (w *world) wantPending(want map[string]int) {
	w.Helper()
	for name, n := range want {
		if pending := w.stored.Pending(name); len(pending) != n {
			w.Errorf("allocation %s has booked %v, want %d", name, pending, n)
		}
	}
}

// quotaOf is the ResourceQuota default of the project web.
func quotaOf(hard ...string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "default", UID: "u"}, Spec: corev1.ResourceQuotaSpec{Hard: list(hard...)},
	}
}

// create asks to create a ResourceQuota.
func create(t testing.TB, hard ...string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "web", Name: "default", Object: runtime.RawExtension{Raw: encode(t, quotaOf(hard...))},
	}
}

// update asks to change it.
func update(t testing.TB, from, to *corev1.ResourceQuota) *admissionv1.AdmissionRequest {
	from.ResourceVersion, to.ResourceVersion = "5", "5"
	return &admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, Namespace: "web", Name: "default",
		OldObject: runtime.RawExtension{Raw: encode(t, from)}, Object: runtime.RawExtension{Raw: encode(t, to)},
	}
}

func encode(t testing.TB, object any) []byte {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// list is a resource list of names and amounts, such as pods=10.
func list(amounts ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for _, amount := range amounts {
		name, quantity, _ := strings.Cut(amount, "=")
		l[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return l
}

// namespaces returns the namespace of the request.
type namespaces func() (*metav1.PartialObjectMetadata, error)

func (n namespaces) Get(context.Context, string) (*metav1.PartialObjectMetadata, error) { return n() }

// permissions answers for the permissions of users.
type permissions func(user string, what authorizationv1.ResourceAttributes) (bool, error)

func (p permissions) May(_ context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	return p(user.Username, what)
}

// gate waits for the declared allocations.
type gate func(ctx context.Context, version catalog.Digest) error

func (g gate) Wait(ctx context.Context, version catalog.Digest) error { return g(ctx, version) }
