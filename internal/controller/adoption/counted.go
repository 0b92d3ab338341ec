package adoption

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Counts tells how the existing objects count by policies.
type Counts interface {
	// CountsBy returns how existing objects count by a policy. It reports false until all of them do.
	CountsBy(p *catalog.Policy) (watcher.Counts, bool)
}

// countsObjects reports whether the current generation of a policy counts objects. Then there is nothing to adopt.
func (c *Controller) countsObjects(policy string) bool {
	current, _ := c.Catalog.Current(policy)
	return current != nil && current.CountsObjects()
}

// reportCounts writes into the status of a policy how the existing objects count by it. The ledgers observe them by
// themselves, so there is nothing else to do.
func (c *Controller) reportCounts(ctx context.Context, object *quotav1alpha1.ClaimCreationPolicy, p *catalog.Policy) (reconcile.Result, error) {
	counts, isComplete := c.Counts.CountsBy(p)
	next := reconcile.Result{RequeueAfter: countPoll}
	if isComplete {
		next.RequeueAfter = countInterval
	}

	status := adoptionOf(object, counts, isComplete, metav1.NewTime(c.now()))
	if before := object.Status.Adoption; before != nil && *withoutTimes(before) == *withoutTimes(&status) {
		return next, nil
	}
	if err := c.writeAdoption(ctx, object, &status); err != nil {
		return next, err
	}
	if isComplete && !isAdopted(object) {
		c.reportRecount(p, counts)
	}
	return next, nil
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
	compared.StartTime, compared.CompletionTime, compared.UncheckedSince = nil, nil, nil
	return &compared
}

// writeAdoption writes the status, with the condition Adopted in the same write. It fails if somebody has changed the
// policy meanwhile.
func (c *Controller) writeAdoption(ctx context.Context, object *quotav1alpha1.ClaimCreationPolicy, status *quotav1alpha1.AdoptionStatus) error {
	policy := object.DeepCopy()
	policy.Status.Adoption = status
	SetAdopted(policy)
	fields := map[string]any{
		"state": status.State, "observedGeneration": status.ObservedGeneration, "startTime": status.StartTime,
		"completionTime": status.CompletionTime, "total": status.Total, "processed": status.Processed, "adopted": status.Adopted,
		"failed": status.Failed, "message": nil, "progress": status.Progress, "uncheckedSince": nil,
	}
	if status.Message != "" {
		fields["message"] = status.Message
	}
	return patchStatus(ctx, c.Client, policy.Name, map[string]any{"uid": policy.UID, "resourceVersion": policy.ResourceVersion},
		map[string]any{"adoption": fields, "conditions": policy.Status.Conditions})
}
