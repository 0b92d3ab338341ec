package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

// Replicas record in the same order, so they do not block each other in turns.
func TestRecordsInOrderOfNames(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"c", "a", "b"} {
		w.allocation(name, "pods=10")
	}
	w.wantAllowed(w.review(create(t, "pods=10")))
	w.wantPending(map[string]int{"a": 1, "b": 1, "c": 1})
	if diff := cmp.Diff([]string{"a", "b", "c"}, w.asked); diff != "" {
		t.Errorf("order of booking (-want +got):\n%s", diff)
	}
}

// If one allocation has no room, those with room keep nothing, and the answer names all without room.
func TestAllOrNone(t *testing.T) {
	w := newWorld(t)
	for name, limit := range map[string]int{"a": 10, "b": 4, "c": 3, "d": 10} {
		w.allocation(name, fmt.Sprintf("pods=%d", limit))
	}
	answer := w.review(create(t, "pods=5"))
	w.wantStatus(answer, http.StatusForbidden, "exceeded ResourceQuotaAllocation: b,", "exceeded ResourceQuotaAllocation: c,")
	if n := len(answer.Result.Details.Causes); n != 2 {
		t.Errorf("%d allocations are named, want those that have no room: %s", n, answer.Result.Message)
	}
	w.wantPending(map[string]int{"a": 0, "b": 0, "c": 0, "d": 0})
	if diff := cmp.Diff([]string{"a", "b"}, w.asked); diff != "" {
		t.Errorf("once it is to be refused, nothing is booked that would be given back (-want +got):\n%s", diff)
	}
	w.wantAllowed(w.review(create(t, "pods=3")))
}

// An allocation may have recorded the change in spite of a lost answer, and gives it back too.
func TestErrorGivesEverythingBack(t *testing.T) {
	w := newWorld(t)
	w.allocation("a", "pods=10")
	w.allocation("b", "pods=10")
	w.allocation("c", "pods=10")
	const tries = 3
	w.stored.Fail = func(name string, nth int) (err error, isLate bool) {
		if name == "b" && nth <= tries {
			err = errors.New("connection lost")
		}
		return err, true
	}
	w.wantUndecided(w.review(create(t, "pods=5")), http.StatusServiceUnavailable, "connection lost")
	w.wantPending(map[string]int{"a": 0, "b": 0, "c": 0})
	if w.stored.Written("b").Ledger <= tries {
		t.Errorf("b was written %d times, so that nothing was given back", w.stored.Written("b").Ledger)
	}
	if w.stored.Written("c").Ledger > 0 {
		t.Error("what cannot be booked by one is booked by the next")
	}
}

func TestNothingIsBooked(t *testing.T) {
	for name, tt := range map[string]struct {
		reason  string
		setUp   func(*world)
		request *admissionv1.AdmissionRequest
	}{
		"dry run": {"nothing comes of it", func(*world) {}, dry(create(t, "pods=10"))},
		"gone namespace": {"the API server refuses it", func(w *world) {
			w.handler.Namespaces = namespaces(func() (*metav1.PartialObjectMetadata, error) { return nil, nil })
		}, create(t, "pods=11")},
		"other labels": {"the namespace is no project", func(w *world) {
			w.handler.Namespaces = namespaces(func() (*metav1.PartialObjectMetadata, error) {
				return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "other"}, ResourceVersion: "1"}}, nil
			})
		}, create(t, "pods=11")},
		"no labels": {"nor is it one without any", func(w *world) {
			w.handler.Namespaces = namespaces(func() (*metav1.PartialObjectMetadata, error) {
				return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}, nil
			})
		}, create(t, "pods=11")},
		"other scopes": {"the ResourceQuota does not count", func(*world) {}, func() *admissionv1.AdmissionRequest {
			quota := quotaOf("pods=11")
			quota.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
			request := create(t)
			request.Object.Raw = encode(t, quota)
			return request
		}()},
		"not capped":         {"nobody counts it", func(*world) {}, create(t, "services=1000")},
		"deleted allocation": {"it caps nothing any more", func(w *world) { w.stored.Remove("acme") }, create(t, "pods=11")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.allocation("acme", "pods=10")
			tt.setUp(w)
			w.wantAllowed(w.review(tt.request))
			if pending := w.stored.Pending("acme"); len(pending) > 0 {
				t.Errorf("%s: %v is pending", tt.reason, pending)
			}
		})
	}
}

func dry(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionRequest {
	request.DryRun = new(true)
	return request
}

func TestDryRunIsDeniedAsWell(t *testing.T) {
	w := newWorld(t)
	w.allocation("a", "pods=100")
	w.allocation("b", "pods=10")
	w.wantStatus(w.review(dry(create(t, "pods=11"))), http.StatusForbidden, "exceeded ResourceQuotaAllocation: b,")
	w.wantPending(map[string]int{"a": 0, "b": 0})
}

// An allocation with scopes counts only ResourceQuotas with the same scopes.
func TestScopesMustMatch(t *testing.T) {
	w := newWorld(t)
	w.allocation("all", "pods=10")
	scoped := w.allocation("terminating", "pods=10").DeepCopy()
	scoped.Generation, scoped.Spec.Allocation.Scopes = 2, []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
	w.declare(scoped)
	quota := quotaOf("pods=10")
	quota.Spec.Scopes = scoped.Spec.Allocation.Scopes
	request := create(t)
	request.Object.Raw = encode(t, quota)
	w.wantAllowed(w.review(request))
	w.wantPending(map[string]int{"all": 0, "terminating": 1})
	if diff := cmp.Diff([]string{"terminating"}, w.asked); diff != "" {
		t.Errorf("who is asked (-want +got):\n%s", diff)
	}
}

// Lowering a ResourceQuota depends on nothing.
func TestLoweringNeedsNoLedger(t *testing.T) {
	w := newWorld(t)
	w.allocation("acme", "pods=1")
	w.handler.Ready = nil
	w.handler.Declared = gate(func(context.Context, catalog.Digest) error {
		t.Error("the catalog is asked")
		return errors.New("it is behind")
	})
	w.handler.Namespaces = namespaces(func() (*metav1.PartialObjectMetadata, error) {
		t.Error("the namespace is asked for")
		return nil, errors.New("it cannot be had")
	})
	w.wantAllowed(w.review(update(t, quotaOf("pods=50"), quotaOf("pods=40"))))
	w.wantAllowed(w.review(update(t, quotaOf("pods=50"), quotaOf("pods=50"))))
	w.wantAllowed(w.review(create(t, "pods=0")))
}

func TestUndecided(t *testing.T) {
	for name, tt := range map[string]struct {
		reason string
		setUp  func(*world)
		code   int32
		want   string
		took   time.Duration
	}{
		"not loaded": {"nobody knows which allocations there are", func(w *world) { w.handler.Ready = nil },
			http.StatusServiceUnavailable, "the allocations are still being loaded", 1500 * time.Millisecond},
		"behind": {"there may be allocations that are not known", func(w *world) {
			w.handler.Declared = gate(func(ctx context.Context, version catalog.Digest) error {
				<-ctx.Done()
				return fmt.Errorf("the allocations of version %s are not known: %w", version, ctx.Err())
			})
		}, http.StatusServiceUnavailable, "the allocations of version 00000000000000ff are not known", 1500 * time.Millisecond},
		"no namespace to be had": {"it may be a project", func(w *world) {
			w.handler.Namespaces = namespaces(func() (*metav1.PartialObjectMetadata, error) {
				return nil, errors.New("connection refused")
			})
		}, http.StatusServiceUnavailable, "connection refused", 0},
		"too many in flight": {"others are not kept waiting by one project", func(w *world) {
			var pending []quotav1alpha1.PendingResourceQuota
			for i := range 64 {
				pending = append(pending, quotav1alpha1.PendingResourceQuota{
					ID: fmt.Sprint(i), Namespace: "web", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), NamespaceVersion: "1", AdmittedAt: metav1.Now(),
				})
			}
			w.stored.PutPending("acme", pending...)
		}, http.StatusTooManyRequests, "too many changes of ResourceQuotas are in flight", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.allocation("acme", "pods=10")
				tt.setUp(w)
				before := len(w.stored.Pending("acme"))
				began := time.Now()
				w.wantUndecided(w.reviewAt("00000000000000ff", create(t, "pods=1")), tt.code, tt.want)
				if took := time.Since(began); took != tt.took {
					t.Errorf("%s: the answer took %s, want %s of the 2 s that the API server waits at least", tt.reason, took, tt.took)
				}
				w.wantPending(map[string]int{"acme": before})
			})
		})
	}
}
