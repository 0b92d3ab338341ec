package audited

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// ended records the reviews that are ended here.
type ended struct {
	mu  sync.Mutex
	ids []types.UID
}

func (e *ended) End(r Review) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids = append(e.ids, r.ID)
}

// sorted returns the reviews that have ended so far.
func (e *ended) sorted() []types.UID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(slices.Values(e.ids))
}

// alone has no other replicas.
type alone struct{}

func (alone) IsPreferred(quotav1alpha1.ConsumerRef) bool { return true }

func (alone) Forward(context.Context, quotav1alpha1.ConsumerRef, string, []byte) ([]byte, bool) {
	return nil, false
}

// event is the audit event of a request with reviews.
func event(stage auditinternal.Stage, status *metav1.Status, ids ...types.UID) *auditinternal.Event {
	annotations := map[string]string{"authorization.k8s.io/decision": "allow"}
	for _, id := range ids {
		review := Review{ID: id, Kind: "ConfigMap", UID: "object-" + id}
		for key, value := range review.Annotations() {
			annotations["enforce.quota.miloapis.com/"+key] = value
		}
	}
	return &auditinternal.Event{Stage: stage, Annotations: annotations, ResponseStatus: status}
}

func TestEndOfRequests(t *testing.T) {
	tests := map[string]struct {
		reason string
		event  *auditinternal.Event
		// now are the reviews that end at once, and later those that end after a write can no longer take effect.
		now, later []types.UID
	}{
		"success": {
			"the object appears, and needs no report", event(auditinternal.StageResponseComplete, &metav1.Status{Code: 201}, "1"), nil, nil,
		},
		"success at the second attempt": {
			"a generated name was taken: one of the objects does not appear",
			event(auditinternal.StageResponseComplete, &metav1.Status{Code: 201}, "1", "2"), []types.UID{"1", "2"}, nil,
		},
		"conflict": {
			"storage refused", event(auditinternal.StageResponseComplete, &metav1.Status{Code: 409}, "1"), []types.UID{"1"}, nil,
		},
		"forbidden": {
			"another quota refused", event(auditinternal.StageResponseComplete, &metav1.Status{Code: 403}, "1"), []types.UID{"1"}, nil,
		},
		"too large": {
			"etcd refuses before it writes",
			event(auditinternal.StageResponseComplete, &metav1.Status{Code: 500, Message: "etcdserver: request is too large"}, "1"), []types.UID{"1"}, nil,
		},
		"unreachable webhook": {
			"webhooks come before the write",
			event(auditinternal.StageResponseComplete, &metav1.Status{Code: 500, Message: `Internal error occurred: failed calling webhook "x.example.com": refused`}, "1"),
			[]types.UID{"1"}, nil,
		},
		"refused with a server error": {
			"a webhook may answer with any code",
			event(auditinternal.StageResponseComplete, &metav1.Status{Code: 503, Message: `admission webhook "x.example.com" denied the request: later`}, "1"),
			[]types.UID{"1"}, nil,
		},
		"etcd does not answer": {
			"its write may still take effect",
			event(auditinternal.StageResponseComplete, &metav1.Status{Code: 500, Message: "etcdserver: request timed out"}, "1"), nil, []types.UID{"1"},
		},
		"timeout": {
			"the API server may still be writing", event(auditinternal.StageResponseComplete, &metav1.Status{Code: 504}, "1"), nil, []types.UID{"1"},
		},
		"panic": {
			"nobody knows where", event(auditinternal.StagePanic, &metav1.Status{Code: 500}, "1"), nil, []types.UID{"1"},
		},
		"earlier stage": {
			"the request goes on", event(auditinternal.StageResponseStarted, &metav1.Status{Code: 409}, "1"), nil, nil,
		},
		"without status": {
			"nothing is known", event(auditinternal.StageResponseComplete, nil, "1"), nil, nil,
		},
		"another's annotation": {
			"only a webhook of Bursar speaks for it", &auditinternal.Event{
				Stage: auditinternal.StageResponseComplete, ResponseStatus: &metav1.Status{Code: 409},
				Annotations: map[string]string{"x.example.com/review.1": `{"id":"1","kind":"ConfigMap","uid":"o"}`},
			}, nil, nil,
		},
		"damaged annotation": {
			"it names no object", &auditinternal.Event{
				Stage: auditinternal.StageResponseComplete, ResponseStatus: &metav1.Status{Code: 409},
				Annotations: map[string]string{"enforce.quota.miloapis.com/review.1": "{"},
			}, nil, nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ender := &ended{}
				reporter := NewReporter(alone{}, ender, logr.Discard())

				reporter.ProcessEvents(tt.event)
				now := ender.sorted()
				time.Sleep(ledgerstore.ReservationMargin)
				synctest.Wait()

				if diff := cmp.Diff(tt.now, now); diff != "" {
					t.Errorf("%s: ended at once (-want +got):\n%s", tt.reason, diff)
				}
				if diff := cmp.Diff(append(tt.now, tt.later...), ender.sorted()); diff != "" {
					t.Errorf("%s: ended at last (-want +got):\n%s", tt.reason, diff)
				}
			})
		})
	}
}

// elsewhere has another replica decide everything. It keeps what that one receives.
type elsewhere struct {
	handler http.Handler
}

func (elsewhere) IsPreferred(quotav1alpha1.ConsumerRef) bool { return false }

func (e elsewhere) Forward(ctx context.Context, _ quotav1alpha1.ConsumerRef, path string, body []byte) ([]byte, bool) {
	recorder := httptest.NewRecorder()
	e.handler.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(string(body))))
	return nil, recorder.Code == http.StatusOK
}

// The API server sends its events to one replica, and another one decided the review.
func TestEndIsReportedToTheReplicaThatDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		decided, here := &ended{}, &ended{}
		other := NewReporter(alone{}, decided, logr.Discard())
		reporter := NewReporter(elsewhere{handler: other.EndHandler()}, here, logr.Discard())
		go func() { _ = reporter.Run(ctx) }()
		batch := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[{"stage":"ResponseComplete","verb":"create",
			"responseStatus":{"metadata":{},"status":"Failure","code":403},
			"annotations":{"enforce.quota.miloapis.com/review.1":"{\"id\":\"1\",\"kind\":\"ConfigMap\",\"uid\":\"o\",\"consumer\":{\"kind\":\"Org\",\"name\":\"acme\"}}"}}]}`

		answer := httptest.NewRecorder()
		reporter.WebhookHandler().ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodPost, WebhookPath, strings.NewReader(batch)))
		synctest.Wait()

		if answer.Code != http.StatusOK {
			t.Errorf("answered %d %s", answer.Code, answer.Body)
		}
		if diff := cmp.Diff([]types.UID{"1"}, decided.sorted()); diff != "" {
			t.Errorf("ended by the other replica (-want +got):\n%s", diff)
		}
	})
}

func TestOtherBodiesAreRefused(t *testing.T) {
	reporter := NewReporter(alone{}, &ended{}, logr.Discard())
	for name, body := range map[string]string{"no JSON": "{", "another kind": `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`} {
		answer := httptest.NewRecorder()
		reporter.WebhookHandler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, WebhookPath, strings.NewReader(body)))
		if answer.Code != http.StatusBadRequest {
			t.Errorf("%s: answered %d, want 400", name, answer.Code)
		}
	}
}
