// Package adoption reports how existing objects count by each policy: in status.adoption, in metrics, and in an event
// once all count by a changed policy. Only the operator, the controller of policies and tests import it.
package adoption

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/inventory/watcher"
)

const (
	// countPoll is the time between two looks whether all existing objects count.
	countPoll = 100 * time.Millisecond
	// countInterval is the time between two reports of a policy by which all objects count.
	countInterval = time.Minute
)

// countsNone is the message of a policy with claims of record.
const countsNone = "existing objects do not count, because the policy uses user or requestInfo, and nobody knows them for these objects"

// Controller writes status.adoption of policies in one term as the leader. Set its fields once.
type Controller struct {
	Client  client.Client
	Catalog *catalog.Catalog
	Counts  Counts
	Clock   Clock
	// Events may be nil.
	Events events.EventRecorder
	Log    logr.Logger
}

// Counts tells how the existing objects count by policies.
type Counts interface {
	// CountsBy returns how existing objects count by a policy. It reports false until all of them do.
	CountsBy(p *catalog.Policy) (watcher.Counts, bool)
}

// Clock is the API server's clock.
type Clock interface {
	Now() time.Time
}

// SetupWithManager registers the reconciler of policies.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("adoption").
		For(&quotav1alpha1.ClaimCreationPolicy{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: isMoreThanProgress})).
		Complete(c)
}

// isMoreThanProgress reports whether an update of a policy is more than this controller's own write.
func isMoreThanProgress(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*quotav1alpha1.ClaimCreationPolicy), e.ObjectNew.(*quotav1alpha1.ClaimCreationPolicy)
	return before.Generation != after.Generation || before.UID != after.UID ||
		!equality.Semantic.DeepEqual(readyOf(before), readyOf(after))
}

// Reconcile implements [reconcile.Reconciler]. While a policy has effect, it looks again and again, because objects
// come and go.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	object := &quotav1alpha1.ClaimCreationPolicy{}
	if err := c.Client.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ready, p := readyOf(object), c.Catalog.Policy(object.Name)
	isReady := ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == object.Generation
	switch {
	case !isReady || p == nil || p.Generation != object.Generation:
		return reconcile.Result{}, nil
	case !p.CountsObjects():
		return reconcile.Result{}, c.report(ctx, object, p, watcher.Counts{}, true)
	}

	counts, isComplete := c.Counts.CountsBy(p)
	next := reconcile.Result{RequeueAfter: countPoll}
	if isComplete {
		next.RequeueAfter = countInterval
	}
	return next, c.report(ctx, object, p, counts, isComplete)
}

// report writes into the status of a policy how the existing objects count by it, if that is news. Once all of them
// count by a new or changed policy, an event says so.
func (c *Controller) report(ctx context.Context, object *quotav1alpha1.ClaimCreationPolicy, p *catalog.Policy, counts watcher.Counts, isComplete bool) error {
	status := adoptionOf(object, counts, isComplete, metav1.NewTime(c.Clock.Now()))
	if !p.CountsObjects() {
		status.Message = countsNone
	}
	if before := object.Status.Adoption; before != nil && *withoutTimes(before) == *withoutTimes(&status) {
		return nil
	}
	if err := c.write(ctx, object, &status); err != nil {
		return err
	}
	if isComplete && p.CountsObjects() && !isAdopted(object) {
		c.reportRecount(p, counts)
	}
	return nil
}

// isAdopted reports whether the status of a policy says already that all existing objects count by this generation.
func isAdopted(policy *quotav1alpha1.ClaimCreationPolicy) bool {
	a := policy.Status.Adoption
	return a != nil && a.ObservedGeneration == policy.Generation && a.State == quotav1alpha1.AdoptionComplete
}

// reportRecount tells in an event that all existing objects count by a new or changed policy.
func (c *Controller) reportRecount(p *catalog.Policy, counts watcher.Counts) {
	if c.Events == nil {
		return
	}
	note := fmt.Sprintf("existing objects that count by the policy: %d of %d, for %s",
		counts.Counting, counts.Objects, message.Count(counts.Consumers, "consumer", "consumers"))
	if counts.Failed > 0 {
		note += fmt.Sprintf("; it fails on %d: %s", counts.Failed, counts.Failure)
	}
	c.Events.Eventf(p.Reference(), nil, corev1.EventTypeNormal, quotav1alpha1.EventRecounted, "Recount", "%s", note)
}

// adoptionOf returns the status of a policy by which existing objects count, or are about to.
func adoptionOf(object *quotav1alpha1.ClaimCreationPolicy, counts watcher.Counts, isComplete bool, now metav1.Time) quotav1alpha1.AdoptionStatus {
	status := quotav1alpha1.AdoptionStatus{State: quotav1alpha1.AdoptionRunning, ObservedGeneration: object.Generation, StartTime: &now}
	if before := object.Status.Adoption; before != nil && before.ObservedGeneration == object.Generation {
		status.StartTime, status.CompletionTime = before.StartTime, before.CompletionTime
	}
	if !isComplete {
		return status
	}

	status.State = quotav1alpha1.AdoptionComplete
	if status.CompletionTime == nil {
		status.CompletionTime = &now
	}
	status.Total, status.Processed, status.Adopted = int64(counts.Objects), int64(counts.Objects), int64(counts.Counting)
	status.Failed, status.Message = int64(counts.Failed), counts.Failure
	status.Progress = fmt.Sprintf("%d/%d", counts.Objects-counts.Failed, counts.Objects)
	return status
}

// withoutTimes returns a comparable copy of a status.
func withoutTimes(status *quotav1alpha1.AdoptionStatus) *quotav1alpha1.AdoptionStatus {
	compared := *status
	compared.StartTime, compared.CompletionTime = nil, nil
	return &compared
}

// write writes the status, with the condition Adopted in the same write. It fails if somebody has changed the policy
// meanwhile.
func (c *Controller) write(ctx context.Context, object *quotav1alpha1.ClaimCreationPolicy, status *quotav1alpha1.AdoptionStatus) error {
	policy := object.DeepCopy()
	policy.Status.Adoption = status
	SetAdopted(policy)
	fields := map[string]any{
		"state": status.State, "observedGeneration": status.ObservedGeneration, "startTime": status.StartTime,
		"completionTime": status.CompletionTime, "total": status.Total, "processed": status.Processed, "adopted": status.Adopted,
		"failed": status.Failed, "message": nil, "progress": status.Progress,
	}
	if status.Message != "" {
		fields["message"] = status.Message
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": policy.UID, "resourceVersion": policy.ResourceVersion},
		"status":   map[string]any{"adoption": fields, "conditions": policy.Status.Conditions},
	})
	if err != nil {
		return fmt.Errorf("encode the adoption of ClaimCreationPolicy %s: %w", policy.Name, err)
	}
	to := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	if err := c.Client.Status().Patch(ctx, to, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the adoption of ClaimCreationPolicy %s: %w", policy.Name, err)
	}
	return nil
}
