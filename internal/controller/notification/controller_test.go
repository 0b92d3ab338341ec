package notification

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// stored returns an API server with a request, and with failures of its own.
func stored(t *testing.T, request *quotav1alpha1.QuotaRequest, failures interceptor.Funcs) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(request).WithObjects(request).WithInterceptorFuncs(failures).Build()
}

func reconciled(t *testing.T, r *Reconciler) (reconcile.Result, error) {
	t.Helper()
	return r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pendingRequest())})
}

func wantNotified(t *testing.T, api client.Client, want string) *quotav1alpha1.QuotaRequest {
	t.Helper()
	request := pendingRequest()
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(request), request); err != nil {
		t.Fatal(err)
	}
	if request.Status.Notified != want {
		t.Errorf("status.notified is %q, want %q", request.Status.Notified, want)
	}
	return request
}

// The reconciler repeats an attempt with a permanent answer at the slowest pace, and others at the pace of the queue.
func TestPace(t *testing.T) {
	for name, tt := range map[string]struct {
		status         int
		isSlow, isAsap bool
		notified       string
	}{
		"accepted": {200, false, false, quotav1alpha1.ReasonPending},
		"gone":     {410, true, false, ""},
		"broken":   {500, false, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			to, api := newReceiver(t, tt.status), stored(t, pendingRequest(), interceptor.Funcs{})
			r := New(api, api, NewSender(to.URL, "", wall{}), logr.Discard())
			result, err := reconciled(t, r)
			if (result.RequeueAfter == delayMax) != tt.isSlow || (err != nil) != tt.isAsap {
				t.Errorf("got %+v, error %v; want slow: %t, at the pace of the queue: %t", result, err, tt.isSlow, tt.isAsap)
			}
			wantNotified(t, api, tt.notified)
			want := `
# HELP bursar_request_notifications_total Attempts to notify the receiver of a state of a QuotaRequest, by result: sent or failed.
# TYPE bursar_request_notifications_total counter
bursar_request_notifications_total{result="failed"} 1
bursar_request_notifications_total{result="sent"} 0
`
			if tt.notified != "" {
				want = strings.NewReplacer(`"failed"} 1`, `"failed"} 0`, `"sent"} 0`, `"sent"} 1`).Replace(want)
			}
			if err := testutil.CollectAndCompare(r.sent, strings.NewReader(want)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A lagging cache does not repeat an event.
func TestCacheLags(t *testing.T) {
	to, known := newReceiver(t, http.StatusOK), pendingRequest()
	known.Status.Notified = quotav1alpha1.ReasonPending
	r := New(stored(t, pendingRequest(), interceptor.Funcs{}), stored(t, known, interceptor.Funcs{}), NewSender(to.URL, "", wall{}), logr.Discard())
	if result, err := reconciled(t, r); err != nil || !result.IsZero() || to.posts != 0 {
		t.Errorf("got %+v, error %v and %d events, want none", result, err, to.posts)
	}
}

// A change of the request during the attempt does not repeat the event.
func TestConflict(t *testing.T) {
	to, conflicts := newReceiver(t, http.StatusOK), 0
	api := stored(t, pendingRequest(), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, api client.Client, _ string, object client.Object, _ ...client.SubResourceUpdateOption) error {
			if conflicts++; conflicts > 1 {
				return api.Status().Update(ctx, object)
			}
			latest := pendingRequest()
			if err := api.Get(ctx, client.ObjectKeyFromObject(latest), latest); err != nil {
				return err
			}
			latest.Status.Asks = "2 units"
			if err := api.Status().Update(ctx, latest); err != nil {
				return err
			}
			return apierrors.NewConflict(schema.GroupResource{Resource: "quotarequests"}, object.GetName(), nil)
		},
	})
	r := New(api, api, NewSender(to.URL, "", wall{}), logr.Discard())
	for range 2 {
		if result, err := reconciled(t, r); err != nil || !result.IsZero() {
			t.Errorf("got %+v, error %v, want success", result, err)
		}
	}
	if request := wantNotified(t, api, quotav1alpha1.ReasonPending); to.posts != 1 || request.Status.Asks != "2 units" {
		t.Errorf("got %d events and %+v, want one event, and the change to stay", to.posts, request.Status)
	}
}
