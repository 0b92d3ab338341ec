package adoption

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// writeInterval is the least time between two writes of how far a scan is.
const writeInterval = time.Second

// progress is how far a scan is. It is safe for concurrent use.
type progress struct {
	policy string
	// isRecheck is set if the status says already that everything was adopted. It is only written
	// if that was not so.
	isRecheck bool

	mu      sync.Mutex
	status  quotav1alpha1.AdoptionStatus
	before  int64 // adopted before a recheck
	written time.Time
}

// progressOf begins a scan for a policy.
func progressOf(policy *quotav1alpha1.ClaimCreationPolicy) *progress {
	now := metav1.Now()
	p := &progress{policy: policy.Name, status: quotav1alpha1.AdoptionStatus{
		State: quotav1alpha1.AdoptionRunning, ObservedGeneration: policy.Generation, StartTime: &now,
	}}
	before := policy.Status.Adoption
	if before == nil || before.ObservedGeneration != policy.Generation {
		return p
	}
	// It goes on after an end of the process, or of the patience with what could not be looked at.
	p.before, p.status.Adopted = before.Adopted, before.Adopted
	p.isRecheck = before.State == quotav1alpha1.AdoptionComplete
	if before.StartTime != nil {
		p.status.StartTime = before.StartTime
	}
	return p
}

// sees notes how many objects there are, as a page of them tells.
func (p *progress) sees(page *unstructured.UnstructuredList) {
	p.mu.Lock()
	defer p.mu.Unlock()
	total := p.status.Processed + int64(len(page.Items))
	if remaining := page.GetRemainingItemCount(); remaining != nil {
		total += *remaining
	}
	p.status.Total = total
}

// processed counts an object: one that was adopted, one that cannot be (err), or one that had
// nothing to be done about.
func (p *progress) processed(adopted bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Processed++
	if adopted {
		p.status.Adopted++
	}
	if err != nil {
		p.status.Failed++
		p.status.Message = err.Error()
	}
}

// says adds a sentence to the progress.
func (p *progress) says(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Message = message
}

// restart begins to count anew what was looked at.
func (p *progress) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Processed, p.status.Failed, p.status.Message = 0, 0, ""
}

// write puts the progress into the policy's status, if it was not just written.
func (p *progress) write(ctx context.Context, api client.Client) error {
	p.mu.Lock()
	isDue := !p.isRecheck && time.Since(p.written) >= writeInterval
	p.mu.Unlock()
	if !isDue {
		return nil
	}
	return p.patch(ctx, api)
}

// complete says that every object has been looked at.
func (p *progress) complete(ctx context.Context, api client.Client) error {
	p.mu.Lock()
	now := metav1.Now()
	p.status.State, p.status.CompletionTime = quotav1alpha1.AdoptionComplete, &now
	isNews := !p.isRecheck || p.status.Adopted > p.before
	p.mu.Unlock()
	if !isNews {
		return nil
	}
	return p.patch(ctx, api)
}

func (p *progress) patch(ctx context.Context, api client.Client) error {
	p.mu.Lock()
	p.written = time.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"adoption": patchOf(p.status)}})
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("encode the progress of ClaimCreationPolicy %s: %w", p.policy, err)
	}
	object := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.policy}}
	err = api.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
	return client.IgnoreNotFound(err)
}

// patchOf also removes what is not there any more.
func patchOf(status quotav1alpha1.AdoptionStatus) map[string]any {
	patch := map[string]any{
		"state": status.State, "observedGeneration": status.ObservedGeneration, "startTime": status.StartTime,
		"completionTime": status.CompletionTime, "total": status.Total, "processed": status.Processed,
		"adopted": status.Adopted, "failed": status.Failed, "message": nil,
	}
	if status.Message != "" {
		patch["message"] = status.Message
	}
	return patch
}
