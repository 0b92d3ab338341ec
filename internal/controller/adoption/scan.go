package adoption

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/plan"
	"github.com/bursar/bursar/internal/protected"
)

const (
	// pageSize is how many objects are read at a time.
	pageSize = 500
	// objectsAtOnce is how many objects of a policy are adopted at the same time. Most of the time
	// each waits for the API server, which others need too.
	objectsAtOnce = 32
)

// scan applies one policy to all objects of its kind.
type scan struct {
	*Controller
	policy   *catalog.Policy
	progress *progress
	// again counts objects that could not be looked at.
	again atomic.Int64
}

// run scans until the end, or until the policy changes. It reports whether every object was looked at.
func (s *scan) run(ctx context.Context) (complete bool, err error) {
	if s.progress.isRecheck && s.hasAll() {
		return true, nil
	}
	resource, served, err := s.Kinds.VersionedResourceFor(ctx, s.policy.Trigger)
	if err != nil || !served {
		return false, err
	}
	for next := ""; ; {
		page, err := s.Live.Resource(resource).List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if apierrors.IsResourceExpired(err) {
			s.progress.restart()
			next = ""
			continue
		}
		if err != nil {
			return false, err
		}
		s.progress.sees(page)
		if err := s.adopt(ctx, page.Items); err != nil {
			return false, err
		}
		if !s.isCurrent() {
			return true, nil // its successor has a scan of its own
		}
		if next = page.GetContinue(); next == "" {
			break
		}
		if err := s.progress.write(ctx, s.Client); err != nil {
			return false, err
		}
	}
	if s.again.Load() > 0 {
		return false, nil
	}
	return true, s.progress.complete(ctx, s.Client)
}

// isCurrent tells whether the policy is still in force as it was.
func (s *scan) isCurrent() bool { return s.Catalog.Policy(s.policy.Name) == s.policy }

// hasAll tells whether every object that is known has a claim of the policy.
func (s *scan) hasAll() bool {
	if s.policy.FollowsUpdates() {
		return false // they may hold the wrong amounts
	}
	return s.Objects.All(s.policy.Trigger.GroupKind(), func(o protected.Object) bool {
		return slices.Contains(s.exempt, o.Namespace) || s.hasClaim(s.policy, o.UID)
	})
}

// adopt looks at the objects of a page.
func (s *scan) adopt(ctx context.Context, items []unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(objectsAtOnce)
	for i := range items {
		object := &items[i]
		if slices.Contains(s.exempt, object.GetNamespace()) || !s.policy.FollowsUpdates() && s.hasClaim(s.policy, object.GetUID()) {
			s.progress.processed(false, nil)
			continue
		}
		group.Go(func() error {
			adopted, err := s.conform(ctx, object)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if isTransient(err) {
				s.again.Add(1)
				s.Log.V(1).Info("an object could not be looked at yet", "policy", s.policy.Name, "object", object.GetName(), "error", err.Error())
				return nil
			}
			s.progress.processed(adopted, err)
			return nil
		})
	}
	return group.Wait()
}

// conform tries for a while.
func (s *scan) conform(ctx context.Context, object *unstructured.Unstructured) (adopted bool, err error) {
	const tries, pause = 5, 50 * time.Millisecond
	for n := range tries {
		if adopted, err = s.Conform(ctx, s.policy, object); !isTransient(err) {
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

func isTransient(err error) bool {
	var transient *plan.TransientError
	return errors.As(err, &transient) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
