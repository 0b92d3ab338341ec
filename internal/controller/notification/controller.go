// Package notification notifies a receiver over HTTP of the states of QuotaRequests: a ticket system can take part.
// Only the operator and tests import it.
//
// A state is due until status.notified of the request names it, and it does so once the receiver has accepted the
// event. So a restart repeats at most the events without a stored acceptance, and loses none. A state stops being due
// if it ends before the receiver accepts its event.
package notification

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The pace of attempts for one request.
const (
	delayMin = time.Second
	delayMax = 5 * time.Minute
)

// sendersMax is how many attempts run at a time. They mostly wait for the receiver.
const sendersMax = 4

// The values of the label result.
const (
	resultSent   = "sent"
	resultFailed = "failed"
)

// Reconciler notifies the receiver of each request. Make it by [New].
type Reconciler struct {
	// cached reads from a cache and writes, and live reads from the API server.
	cached client.Client
	live   client.Reader
	sender *Sender
	log    logr.Logger
	sent   *prometheus.CounterVec
	pause  *pause
}

// New returns a reconciler with a sender.
func New(cached client.Client, live client.Reader, sender *Sender, log logr.Logger) *Reconciler {
	sent := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bursar_request_notifications_total",
		Help: "Attempts to notify the receiver of a state of a QuotaRequest, by result: sent or failed.",
	}, []string{"result"})
	// The alert needs both series from the start.
	for _, result := range []string{resultSent, resultFailed} {
		sent.WithLabelValues(result)
	}
	return &Reconciler{cached: cached, live: live, sender: sender, log: log, sent: sent, pause: newPause()}
}

// Collectors returns the metric of attempts, for registration.
func (r *Reconciler) Collectors() []prometheus.Collector { return []prometheus.Collector{r.sent} }

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("notification").
		For(&quotav1alpha1.QuotaRequest{}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: sendersMax,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](delayMin, delayMax),
		}).
		Complete(r)
}

// Reconcile implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, name reconcile.Request) (reconcile.Result, error) {
	seen, request := &quotav1alpha1.QuotaRequest{}, &quotav1alpha1.QuotaRequest{}
	if err := r.cached.Get(ctx, name.NamespacedName, seen); err != nil || due(seen) == nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if left := r.pause.left(); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	// The cache may lag behind the last notification: do not repeat it.
	if err := r.live.Get(ctx, name.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	state := due(request)
	if state == nil {
		return reconcile.Result{}, nil
	}
	if err := r.send(ctx, request, state); err != nil {
		err = fmt.Errorf("notify the receiver that QuotaRequest %s is %s: %w", name, state.Reason, err)
		var status *statusError
		if errors.As(err, &status) && status.isLasting() {
			r.log.Error(err, "A notification was rejected", "nextAttempt", delayMax.String())
			return reconcile.Result{RequeueAfter: delayMax}, nil
		}
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.record(ctx, request, state.Reason)
}

// send sends the event of a state, and counts the attempt.
func (r *Reconciler) send(ctx context.Context, request *quotav1alpha1.QuotaRequest, state *metav1.Condition) error {
	event, err := newEvent(request, state)
	if err == nil {
		err = r.sender.send(ctx, event)
	}
	if err != nil {
		r.sent.WithLabelValues(resultFailed).Inc()
		r.pause.failed()
		return err
	}
	r.sent.WithLabelValues(resultSent).Inc()
	r.pause.succeeded()
	return nil
}

// record stores the receiver's acceptance of the event of a state in the status. After a conflict it reads the request
// again: in spite of any change, the receiver has the event. A change of the state brings the request back into the
// queue.
func (r *Reconciler) record(ctx context.Context, sent *quotav1alpha1.QuotaRequest, state string) error {
	request, key := sent.DeepCopy(), client.ObjectKeyFromObject(sent)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		request.Status.Notified = state
		conflict := r.cached.Status().Update(ctx, request)
		if !apierrors.IsConflict(conflict) {
			return client.IgnoreNotFound(conflict)
		}
		latest := &quotav1alpha1.QuotaRequest{}
		if err := r.live.Get(ctx, key, latest); err != nil || latest.UID != sent.UID {
			return client.IgnoreNotFound(err)
		}
		request = latest
		return conflict
	})
	if err != nil {
		return fmt.Errorf("record the notification that QuotaRequest %s is %s: %w", key, state, err)
	}
	return nil
}
