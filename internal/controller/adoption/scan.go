package adoption

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/policy"
)

const (
	// pageSize is how many objects one request lists.
	pageSize = 500
	// objectsAtOnce is the number of concurrent adoptions of a policy's objects. Each mostly waits for the API server,
	// and other work needs the API server too.
	objectsAtOnce = 48
)

// scan applies one policy to all objects of its kind.
type scan struct {
	*Controller
	policy   *catalog.Policy
	progress *progress
	// since is the creation time from which on objects may lack a claim. It does not matter to a scan with a comparison
	// of amounts.
	since time.Time
	// skipped counts objects with a transient error, and uncharged those with an error that may pass.
	skipped, uncharged atomic.Int64
}

// run scans all objects, or stops when the policy changes. It reports whether it inspected every object.
func (s *scan) run(ctx context.Context) (complete bool, err error) {
	switch {
	case s.policy.UsesRequest():
		s.progress.addMessage(notAdoptable)
		complete = true
	case s.progress.isRecheck && s.allHaveClaims(s.policy):
		complete = true
	default:
		if err = s.awaitNamespaces(ctx); err == nil {
			complete, err = s.adoptAll(ctx)
		}
	}
	switch {
	case complete:
		return true, s.complete(ctx)
	case s.isCurrent():
		return false, errors.Join(err, s.progress.pause(ctx, s.Client))
	default:
		return false, err
	}
}

// Namespaces show the labels and annotations of namespaces to policies.
type Namespaces interface {
	// AwaitCurrent waits until they show all changes up to now.
	AwaitCurrent(ctx context.Context) error
}

// awaitNamespaces waits until the policy sees the present labels and annotations of namespaces. Whoever changes them
// together with a policy, as bursar import does, relies on it: an event of a namespace repeats no scan.
//
// Creates do not wait. They see the namespace as the watch of their replica shows it. Before the scan, the scan charges
// their objects. Later, a review with an older namespace needs a replica whose watch lags longer than it takes until
// the policy is Ready; such an object keeps the decision of its review.
func (s *scan) awaitNamespaces(ctx context.Context) error {
	if !s.policy.UsesNamespace() {
		return nil
	}
	return s.Namespaces.AwaitCurrent(ctx)
}

// adoptAll inspects all objects of the kind, page by page.
func (s *scan) adoptAll(ctx context.Context) (complete bool, err error) {
	resource, served, err := s.Kinds.VersionedResourceFor(ctx, s.policy.Trigger)
	if err != nil || !served {
		return false, err
	}
	for next := ""; ; {
		page, err := s.Live.Resource(resource).List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if apierrors.IsResourceExpired(err) {
			// The list can continue at a later resource version. It may then miss objects created since: those have a
			// review.
			if next = continueToken(err); next == "" {
				s.progress.restart()
			}
			continue
		}
		if err != nil {
			return false, err
		}
		s.progress.recordPage(page)
		if err := s.adoptPage(ctx, page.Items); err != nil {
			return false, err
		}
		if !s.isCurrent() {
			return false, nil // the next scan inspects it in its new state
		}
		if next = page.GetContinue(); next == "" {
			break
		}
		if err := s.progress.write(ctx, s.Client); err != nil {
			return false, err
		}
	}
	return s.skipped.Load() == 0, nil
}

// complete records the end of the inspection of all objects.
func (s *scan) complete(ctx context.Context) error {
	s.backlog.mu.Lock()
	defer s.backlog.mu.Unlock()
	rest := policyBacklog{oldest: s.backlog.policies[s.policy.Name].oldest}
	stored := s.backlog.policies[s.policy.Name].since()
	if err := s.progress.complete(ctx, s.Client, stored, rest.since()); err != nil {
		return err
	}
	s.backlog.set(s.policy.Name, rest)
	return nil
}

// isCurrent reports whether the policy is still effective and unchanged.
func (s *scan) isCurrent() bool { return s.Catalog.Policy(s.policy.Name) == s.policy }

// allHaveClaims reports whether every known object has a claim of the policy.
func (c *Controller) allHaveClaims(p *catalog.Policy) bool {
	if p.FollowsUpdates() {
		return false // they may hold the wrong amounts
	}
	kind := p.Trigger.GroupKind()
	return c.Objects.All(kind, func(o objectcache.Object) bool {
		return namespaces.IsExempt(c.SystemNamespace, kind, o.NamespacedName) || c.hasClaim(p, o.UID)
	})
}

// adoptPage inspects the objects of a page.
func (s *scan) adoptPage(ctx context.Context, items []unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(objectsAtOnce)
	for i := range items {
		object := &items[i]
		if !s.mayNeedClaim(object) {
			s.progress.recordObject(evaluator.Object{}, false, nil)
			continue
		}
		group.Go(func() error {
			adopted, err := s.adoptOne(ctx, object)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if evaluator.IsTransient(err) || evaluator.IsNotAllowed(err) && !s.Catalog.Allows(s.policy) {
				s.skipped.Add(1)
				s.Log.V(1).Info("an object cannot be processed yet", "policy", s.policy.Name, "object", object.GetName(), "error", err.Error())
				return nil
			}
			if full := (*message.FullError)(nil); policy.TookTooLong(err) || errors.As(err, &full) {
				s.uncharged.Add(1)
			}
			s.progress.recordObject(evaluator.ObjectOf(s.policy.Trigger, object), adopted, err)
			if adopted && s.progress.isRecheck {
				s.report(s.policy, evaluator.ObjectOf(s.policy.Trigger, object), corev1.EventTypeNormal, charged)
			}
			return nil
		})
	}
	return group.Wait()
}

// clockSkewMax is the largest difference between the clock of an object's API server and the clock of the heartbeat.
// Objects within the skew have claims or reviews already, so the tolerance costs no request.
const clockSkewMax = 10 * time.Minute

// mayNeedClaim reports whether an object may need a claim or another amount.
func (s *scan) mayNeedClaim(object *unstructured.Unstructured) bool {
	switch {
	case namespaces.IsExempt(s.SystemNamespace, s.policy.Trigger.GroupKind(), evaluator.ObjectOf(s.policy.Trigger, object).Name):
		return false
	case s.policy.FollowsUpdates():
		return true
	case object.GetCreationTimestamp().Time.Before(s.since.Add(-clockSkewMax).Truncate(time.Second)):
		return false
	case s.hasClaim(s.policy, object.GetUID()):
		return false
	default:
		// The review may have seen the namespace before the change that came with the policy.
		mayBeOutdated := s.policy.UsesNamespace() && !s.progress.isRecheck
		return mayBeOutdated || !s.Reviews.Has(object.GetUID(), s.policy)
	}
}

// continueToken returns the token to continue an expired list.
func continueToken(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Continue
	}
	return ""
}

// adoptOne adopts an object, with a few retries.
func (s *scan) adoptOne(ctx context.Context, object *unstructured.Unstructured) (adopted bool, err error) {
	const tries, pause = 5, 50 * time.Millisecond
	for n := range tries {
		if adopted, err = s.adopt(ctx, s.policy, object); !evaluator.IsTransient(err) {
			return adopted, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(pause << n):
		}
	}
	return adopted, err
}
