package adoption

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/evaluator"
)

// writeInterval is the least time between two writes of a scan's progress.
const writeInterval = time.Second

// progress counts the objects of a scan. It is safe for concurrent use.
type progress struct {
	policy string
	uid    types.UID
	// isRecheck is true if the status already reports a complete adoption. Then only a different result of the recheck
	// causes a write.
	isRecheck bool

	mu     sync.Mutex
	status quotav1alpha1.AdoptionStatus
	// before is the previous status, and base its part without a second count.
	before, base quotav1alpha1.AdoptionStatus
	listed       int64
	now          func() time.Time
	written      time.Time
}

// progressOf begins a scan for a policy. With isWhole the scan inspects all objects, also after an earlier scan.
func progressOf(policy *quotav1alpha1.ClaimCreationPolicy, isWhole bool, clock func() time.Time) *progress {
	now := metav1.NewTime(clock())
	p := &progress{policy: policy.Name, uid: policy.UID, now: clock, status: quotav1alpha1.AdoptionStatus{
		State: quotav1alpha1.AdoptionRunning, ObservedGeneration: policy.Generation, StartTime: &now,
	}}
	before := policy.Status.Adoption
	if before == nil || before.ObservedGeneration != policy.Generation {
		return p
	}
	// The count continues after a restart, or after an incomplete scan.
	p.before, p.status.Adopted = *before, before.Adopted
	p.isRecheck = before.State == quotav1alpha1.AdoptionComplete
	if p.isRecheck && !isWhole {
		p.base = quotav1alpha1.AdoptionStatus{Failed: before.Failed, Message: before.Message}
		p.status.Failed, p.status.Message = before.Failed, before.Message
	}
	if before.StartTime != nil {
		p.status.StartTime = before.StartTime
	}
	return p
}

// recordPage updates the total from a page of the list.
func (p *progress) recordPage(page *unstructured.UnstructuredList) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed += int64(len(page.Items))
	p.status.Total = p.listed
	if remaining := page.GetRemainingItemCount(); remaining != nil {
		p.status.Total += *remaining
	}
}

// recordObject counts an object: adopted, failed (err), or unchanged.
func (p *progress) recordObject(object evaluator.Object, adopted bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Processed++
	if adopted {
		p.status.Adopted++
	}
	if err != nil {
		p.status.Failed++
		p.status.Message = fmt.Sprintf("%s: %v", object, err)
	}
}

// addMessage adds a sentence to the progress.
func (p *progress) addMessage(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Message = message
}

// restart resets the count of inspected objects.
func (p *progress) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed, p.status.Processed, p.status.Failed, p.status.Message = 0, 0, p.base.Failed, p.base.Message
}

// write writes the progress to the policy's status, unless it did so recently.
func (p *progress) write(ctx context.Context, api client.Client) error {
	p.mu.Lock()
	isDue := !p.isRecheck && time.Since(p.written) >= writeInterval
	if isDue {
		p.written = time.Now()
	}
	p.mu.Unlock()
	if !isDue {
		return nil
	}
	return p.patch(ctx, api, nil)
}

// pause writes the progress of an incomplete scan.
func (p *progress) pause(ctx context.Context, api client.Client) error {
	p.mu.Lock()
	listed, isNews, adopted := p.listed, p.status.Adopted > p.before.Adopted, p.status.Adopted
	p.mu.Unlock()
	switch {
	case !p.isRecheck && listed > 0:
		return p.patch(ctx, api, nil)
	case p.isRecheck && isNews:
		return p.patchAdoption(ctx, api, map[string]any{"adopted": adopted})
	default:
		return nil
	}
}

// complete writes the end of the inspection of all objects, except for unreviewed objects created since uncheckedSince,
// if any. before is the last written value of uncheckedSince.
func (p *progress) complete(ctx context.Context, api client.Client, before, uncheckedSince *metav1.Time) error {
	p.mu.Lock()
	now := metav1.NewTime(p.now())
	p.status.State, p.status.CompletionTime = quotav1alpha1.AdoptionComplete, &now
	isNews := !p.isRecheck || p.status.Adopted > p.before.Adopted || p.status.Failed != p.before.Failed
	p.mu.Unlock()
	switch {
	case isNews:
		return p.patchWithCondition(ctx, api, map[string]any{"uncheckedSince": uncheckedSince})
	case !before.Equal(uncheckedSince):
		return p.patchAdoption(ctx, api, map[string]any{"uncheckedSince": uncheckedSince})
	default:
		return nil
	}
}

// patchWithCondition is patch, with the condition Adopted in the same write. If somebody changed the policy meanwhile,
// it leaves the condition to the controller of policies.
func (p *progress) patchWithCondition(ctx context.Context, api client.Client, more map[string]any) error {
	policy := &quotav1alpha1.ClaimCreationPolicy{}
	if err := api.Get(ctx, client.ObjectKey{Name: p.policy}, policy); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read ClaimCreationPolicy %s: %w", p.policy, err)
	}
	if policy.UID != p.uid {
		return nil // the scanned policy is gone
	}
	fields, status := p.fields(more)
	policy.Status.Adoption = &status
	SetAdopted(policy)
	err := patchStatus(ctx, api, p.policy, map[string]any{"uid": p.uid, "resourceVersion": policy.ResourceVersion},
		map[string]any{"adoption": fields, "conditions": policy.Status.Conditions})
	if apierrors.IsConflict(err) {
		return p.patchAdoption(ctx, api, fields)
	}
	return err
}

// patch writes the progress and the fields in more. It removes empty fields.
func (p *progress) patch(ctx context.Context, api client.Client, more map[string]any) error {
	fields, _ := p.fields(more)
	return p.patchAdoption(ctx, api, fields)
}

// patchAdoption changes fields of status.adoption of the policy. It fails if another policy has its name now.
func (p *progress) patchAdoption(ctx context.Context, api client.Client, fields map[string]any) error {
	return patchStatus(ctx, api, p.policy, map[string]any{"uid": p.uid}, map[string]any{"adoption": fields})
}

// fields returns the fields of status.adoption to write, with those in more.
func (p *progress) fields(more map[string]any) (map[string]any, quotav1alpha1.AdoptionStatus) {
	p.mu.Lock()
	status := p.status
	p.mu.Unlock()
	fields := map[string]any{
		"state": status.State, "observedGeneration": status.ObservedGeneration, "startTime": status.StartTime,
		"completionTime": status.CompletionTime, "total": status.Total, "processed": status.Processed,
		"adopted": status.Adopted, "failed": status.Failed, "message": nil,
		"progress": fmt.Sprintf("%d/%d", max(status.Processed-status.Failed, 0), max(status.Total, status.Processed)),
	}
	if status.Message != "" {
		fields["message"] = status.Message
	}
	maps.Copy(fields, more)
	return fields, status
}

// patchAdoption changes fields of status.adoption of a policy, if the policy still exists.
func patchAdoption(ctx context.Context, api client.Client, policy string, fields map[string]any) error {
	return patchStatus(ctx, api, policy, map[string]any{}, map[string]any{"adoption": fields})
}

// patchStatus changes fields of the status of a policy, if the policy still exists and has this metadata.
func patchStatus(ctx context.Context, api client.Client, policy string, metadata, fields map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": metadata, "status": fields})
	if err != nil {
		return fmt.Errorf("encode the adoption of ClaimCreationPolicy %s: %w", policy, err)
	}
	object := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy}}
	if err := api.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the adoption of ClaimCreationPolicy %s: %w", policy, err)
	}
	return nil
}
