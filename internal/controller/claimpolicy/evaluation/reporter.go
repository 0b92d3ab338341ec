// Package evaluation reports failures of policies on the objects of requests, in the status of the
// ClaimCreationPolicies and in events. Every replica adds its own failures, at most once in [writeInterval] for a
// policy, however many requests there are. Only the operator and tests import it.
package evaluation

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/evaluator"
)

const (
	// writeInterval is the least time between two writes of the status of a policy.
	writeInterval = 10 * time.Second
	// pollInterval is the time between two checks for due writes. The write of a policy's first failure follows within
	// it.
	pollInterval = time.Second
	// writeTimeout bounds one write.
	writeTimeout = 5 * time.Second
	// failureBytesMax is how much of a failure the status holds.
	failureBytesMax = 1024
)

// Catalog knows the registrations.
type Catalog interface {
	// Allows reports whether the registrations allow the requests of a policy for every object.
	Allows(*catalog.Policy) bool
}

// Reporter collects failures and writes them. Set its exported fields once, before use. It is safe for concurrent use.
type Reporter struct {
	// Client reads policies from the cache and writes their status.
	Client  client.Client
	Catalog Catalog
	Events  events.EventRecorder
	Log     logr.Logger

	mu      sync.Mutex
	tallies map[string]*tally
	// succeeded is the time of each policy's last success, by name, in Unix nanoseconds.
	succeeded sync.Map
}

// tally counts the unwritten failures of one generation of a policy.
type tally struct {
	policy         *catalog.Policy
	failed, denied int64
	failure        string
	reason         string
	at             time.Time
	// written is when the status was last written.
	written time.Time
}

// Failed records the failure of a policy on the object of a request, and whether it denied the request.
func (r *Reporter) Failed(p *catalog.Policy, object evaluator.Object, err error, isDenied bool) {
	reason := quotav1alpha1.ReasonEvaluationFailed
	if evaluator.IsNotAllowed(err) && !r.Catalog.Allows(p) {
		reason = quotav1alpha1.ReasonClaimNotAllowed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tallies == nil {
		r.tallies = map[string]*tally{}
	}
	t := r.tallies[p.Name]
	if t == nil || t.policy.UID != p.UID || t.policy.Generation != p.Generation {
		t = &tally{policy: p}
		r.tallies[p.Name] = t
	}
	t.failed++
	if isDenied {
		t.denied++
	}
	t.failure, t.at, t.reason = cut(fmt.Sprintf("%s: %v", object, err)), time.Now(), reason
}

// Succeeded records the success of a policy on the object of a request. It costs next to nothing.
func (r *Reporter) Succeeded(p *catalog.Policy) {
	at, ok := r.succeeded.Load(p.Name)
	if !ok {
		at, _ = r.succeeded.LoadOrStore(p.Name, new(atomic.Int64))
	}
	at.(*atomic.Int64).Store(time.Now().UnixNano())
}

// Forget drops the records of a deleted policy.
func (r *Reporter) Forget(name string) {
	r.succeeded.Delete(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tallies, name)
}

// Run writes the records until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	recovered := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			for _, t := range r.due(now) {
				r.note(ctx, t.policy.Name, r.write(ctx, t))
			}
			if now.Sub(recovered) >= writeInterval {
				recovered = now
				r.recover(ctx)
			}
		}
	}
}

func (r *Reporter) note(ctx context.Context, policy string, err error) {
	if err != nil && ctx.Err() == nil {
		r.Log.V(1).Info("the evaluation of a policy was not written and will be tried again", "policy", policy, "error", err.Error())
	}
}

// due returns copies of the tallies to write now.
func (r *Reporter) due(now time.Time) []tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	var due []tally
	for _, t := range r.tallies {
		if t.failed > 0 && now.Sub(t.written) >= writeInterval {
			due = append(due, *t)
		}
	}
	return due
}

// write adds a tally to the status of its policy, and emits an event.
func (r *Reporter) write(ctx context.Context, t tally) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	isCurrent, err := r.update(ctx, t.policy.Name, func(policy *quotav1alpha1.ClaimCreationPolicy) bool {
		if policy.UID != t.policy.UID || policy.Generation != t.policy.Generation {
			return false
		}
		status := policy.Status.Evaluation
		if status == nil || status.ObservedGeneration != policy.Generation {
			status = &quotav1alpha1.EvaluationStatus{ObservedGeneration: policy.Generation}
			policy.Status.Evaluation = status
		}
		status.Failed, status.Denied = status.Failed+t.failed, status.Denied+t.denied
		if at := metav1.NewTime(t.at); !at.Before(&status.LastFailureTime) {
			status.LastFailure, status.LastFailureReason, status.LastFailureTime = t.failure, t.reason, at
		}
		return true
	})
	if err != nil {
		return err
	}
	if isCurrent {
		r.Events.Eventf(t.policy.Reference(), nil, corev1.EventTypeWarning, quotav1alpha1.EventEvaluationFailed, "Evaluate", "%s", t.failure)
	}
	r.subtract(t, isCurrent)
	return nil
}

// subtract removes the written failures from a tally. It drops the tally of a changed policy.
func (r *Reporter) subtract(written tally, isCurrent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tallies[written.policy.Name]
	if t == nil || t.policy != written.policy && (t.policy.UID != written.policy.UID || t.policy.Generation != written.policy.Generation) {
		return
	}
	if !isCurrent && time.Since(t.at) > writeInterval { // the cache may be behind for a while
		delete(r.tallies, written.policy.Name)
		return
	}
	if isCurrent {
		t.failed, t.denied, t.written = t.failed-written.failed, t.denied-written.denied, time.Now()
	}
}

// recover updates the status of policies with a success since their last failure.
func (r *Reporter) recover(ctx context.Context) {
	r.succeeded.Range(func(name, value any) bool {
		at := metav1.NewTime(time.Unix(0, value.(*atomic.Int64).Load()))
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		_, err := r.update(ctx, name.(string), func(policy *quotav1alpha1.ClaimCreationPolicy) bool {
			status := policy.Status.Evaluation
			if status == nil || status.ObservedGeneration != policy.Generation || !status.LastFailureTime.Before(&at) ||
				status.LastSuccessTime != nil && status.LastFailureTime.Before(status.LastSuccessTime) {
				return false
			}
			status.LastSuccessTime = &at
			return true
		})
		r.note(ctx, name.(string), err)
		return ctx.Err() == nil
	})
}

// update changes the status of a cached policy, if change returns true, and reports whether it did. A conflict is an
// error, because the cache is behind.
func (r *Reporter) update(ctx context.Context, name string, change func(*quotav1alpha1.ClaimCreationPolicy) bool) (bool, error) {
	policy := &quotav1alpha1.ClaimCreationPolicy{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, policy); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	before := policy.DeepCopy()
	if !change(policy) {
		return false, nil
	}
	err := r.Client.Status().Patch(ctx, policy, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("write the evaluation of ClaimCreationPolicy %s: %w", name, err)
	}
	return true, nil
}

// cut shortens a failure to the size in the status.
func cut(failure string) string {
	if len(failure) <= failureBytesMax {
		return failure
	}
	const ellipsis = "..."
	end := failureBytesMax - len(ellipsis)
	for end > 0 && !utf8.RuneStart(failure[end]) {
		end--
	}
	return failure[:end] + ellipsis
}
