package resourcequota

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestUnreadableRequestIsRejected(t *testing.T) {
	for name, tt := range map[string]struct {
		reason string
		change func(*admissionv1.AdmissionRequest)
		want   string
	}{
		"connection": {"the configuration sends what nobody asked for", func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Connect },
			`this webhook does not know the operation "CONNECT"; correct the webhook configuration`},
		"nothing deleted": {"a deletion has a ResourceQuota to delete", func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Delete },
			"the old ResourceQuota cannot be read: "},
		"no operation": {"it may be anything", func(r *admissionv1.AdmissionRequest) { r.Operation = "" },
			`does not know the operation ""`},
		"no object": {"nothing says what is to be", func(r *admissionv1.AdmissionRequest) { r.Object.Raw = nil },
			"the ResourceQuota cannot be read: "},
		"another type": {"an amount is no list", func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`{"spec":{"hard":[]}}`) },
			"the ResourceQuota cannot be read: "},
		"no amount": {"what is not a quantity is no amount", func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`{"spec":{"hard":{"pods":"many"}}}`) },
			"the ResourceQuota cannot be read: "},
		"nothing before": {"an update has a ResourceQuota to change", func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update },
			"the old ResourceQuota cannot be read: "},
		"another type before": {"nothing says what is more", func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.OldObject.Raw = admissionv1.Update, []byte(`{"spec":7}`)
		}, "the old ResourceQuota cannot be read: "},
		"no UID": {"a raise that is not tied to an object would be pending until its time is over", func(r *admissionv1.AdmissionRequest) {
			r.Object.Raw = []byte(`{"metadata":{"namespace":"web","name":"default"},"spec":{"hard":{"pods":"1"}}}`)
		}, "the ResourceQuota has no UID"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.allocation("acme", "pods=10")
			request := create(t, "pods=1")
			tt.change(request)
			w.wantStatus(w.review(request), http.StatusBadRequest, tt.want)
			if w.asked != nil {
				t.Errorf("%s: %v was asked", tt.reason, w.asked)
			}
		})
	}
}

func TestPathWithoutVersion(t *testing.T) {
	r, recorder := httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder()
	r.SetPathValue("version", "latest")
	newWorld(t).handler.ServeHTTP(recorder, r)
	if body := recorder.Body.String(); recorder.Code != http.StatusNotFound || !strings.Contains(body, `"latest" is not a digest`) {
		t.Errorf("got %d %s", recorder.Code, body)
	}
}

// The ledger ties a pending change to the changed ResourceQuota, and to its version before the change.
func TestWhatIsBooked(t *testing.T) {
	type booked struct{ Namespace, Name, UID, ResourceVersion, NamespaceVersion, Pods string }
	nameless := []byte(`{"metadata":{"uid":"u"},"spec":{"hard":{"pods":"3","services":"1"}}}`)
	for name, tt := range map[string]struct {
		reason  string
		request *admissionv1.AdmissionRequest
		want    booked
	}{
		"create": {"there is no version before", create(t, "pods=3"), booked{"web", "default", "u", "", "1", "3"}},
		"update": {"what is not seen with another version may still be changed", update(t, quotaOf("pods=1"), quotaOf("pods=3")),
			booked{"web", "default", "u", "5", "1", "3"}},
		"name in the request only": {"the object may have neither name nor namespace",
			&admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: "web", Name: "default", Object: runtime.RawExtension{Raw: nameless}},
			booked{"web", "default", "u", "", "1", "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.allocation("acme", "pods=10")
			w.wantAllowed(w.review(tt.request))
			w.wantPending(map[string]int{"acme": 1})
			if t.Failed() {
				return
			}
			raise := w.stored.Pending("acme")[0]
			pods := raise.Hard[corev1.ResourcePods]
			got := booked{raise.Namespace, raise.Name, string(raise.UID), raise.ResourceVersion, raise.NamespaceVersion, pods.String()}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
			if raise.ID == "" || raise.AdmittedAt.IsZero() {
				t.Errorf("it cannot be forgotten: %+v", raise)
			}
		})
	}
}

func TestRaised(t *testing.T) {
	spec := func(amounts ...string) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{Hard: list(amounts...)}
	}
	scoped := func(spec corev1.ResourceQuotaSpec, scopes ...corev1.ResourceQuotaScope) corev1.ResourceQuotaSpec {
		spec.Scopes = scopes
		return spec
	}
	selecting := func(spec corev1.ResourceQuotaSpec, scope corev1.ResourceQuotaScope) corev1.ResourceQuotaSpec {
		spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists},
		}}
		return spec
	}
	for name, tt := range map[string]struct {
		reason   string
		from, to corev1.ResourceQuotaSpec
		want     corev1.ResourceList
	}{
		"created":           {"all of it is new", spec(), spec("pods=2", "requests.cpu=1"), list("pods=2", "requests.cpu=1", "cpu=1")},
		"created empty":     {"nothing is nothing", spec(), spec("pods=0"), list()},
		"same":              {"nothing becomes more", spec("pods=2"), spec("pods=2"), list()},
		"same, otherwise":   {"2000m is 2", spec("requests.cpu=2"), spec("requests.cpu=2000m"), list()},
		"lowered":           {"less needs no room", spec("pods=2"), spec("pods=1"), list()},
		"left out":          {"what is not named gives nothing", spec("pods=2"), spec(), list()},
		"raised":            {"the new amount counts, not the difference", spec("pods=2"), spec("pods=3"), list("pods=3")},
		"raised and less":   {"one does not make up for the other", spec("pods=2", "services=9"), spec("pods=3", "services=1"), list("pods=3")},
		"new resource":      {"what was not named gave nothing", spec("pods=2"), spec("pods=2", "services=1"), list("services=1", "count/services=1")},
		"other name":        {"cpu is requests.cpu", spec("cpu=2"), spec("requests.cpu=2"), list()},
		"lower limit gone":  {"then the other one binds", spec("pods=4", "count/pods=9"), spec("count/pods=9"), list("pods=9")},
		"new resource of 0": {"nor does it give any now", spec("pods=2"), spec("pods=2", "services=0"), list()},
		"new scopes": {"it gave nothing under these", spec("pods=2", "requests.cpu=1"),
			scoped(spec("pods=1", "requests.cpu=0"), corev1.ResourceQuotaScopeTerminating), list("pods=1")},
		"other scopes": {"it gave nothing under these", scoped(spec("pods=2"), corev1.ResourceQuotaScopeNotTerminating),
			scoped(spec("pods=2"), corev1.ResourceQuotaScopeTerminating), list("pods=2")},
		"no scopes": {"it gave nothing without", scoped(spec("pods=2"), corev1.ResourceQuotaScopeTerminating), spec("pods=2"), list("pods=2")},
		"scopes in other words": {"they are the same", scoped(spec("pods=2"), corev1.ResourceQuotaScopeTerminating),
			selecting(spec("pods=2"), corev1.ResourceQuotaScopeTerminating), list()},
		"scopes in another order": {"they are the same",
			scoped(spec("pods=2"), corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeBestEffort),
			scoped(spec("pods=2"), corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeTerminating), list()},
	} {
		t.Run(name, func(t *testing.T) {
			c := change{from: corev1.ResourceQuota{Spec: tt.from}, to: corev1.ResourceQuota{Spec: tt.to}}
			if diff := cmp.Diff(tt.want, c.raised()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}
