package claimcache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// changes are the changes of claims during a list.
type changes struct {
	listing

	mu sync.Mutex
	// version is the version of the latest known change.
	version string
	latest  map[types.NamespacedName]change
	// failed is the reason why later changes cannot be known, or nil.
	failed error
}

// change is a claim at a version: nil if it was deleted.
type change struct {
	claim   *Claim
	version string
}

// followChanges collects the changes after a version until ctx ends.
func (l listing) followChanges(ctx context.Context, version string) *changes {
	c := &changes{listing: l, version: version, latest: map[types.NamespacedName]change{}}
	go c.follow(ctx)
	return c
}

func (c *changes) follow(ctx context.Context) {
	const pause = time.Second
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := c.watch(ctx); apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.failed = fmt.Errorf("follow claims while they are listed: %w", err)
		}
	}, pause)
}

// watch records changes until the API server ends the watch.
func (c *changes) watch(ctx context.Context) error {
	c.mu.Lock()
	options := metav1.ListOptions{Watch: true, AllowWatchBookmarks: true, ResourceVersion: c.version, LabelSelector: c.selector}
	c.mu.Unlock()
	w, err := c.client.Get().Resource(resource).VersionedParams(&options, metav1.ParameterCodec).Watch(ctx)
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		claim, ok := event.Object.(*quotav1alpha1.ResourceClaim)
		if !ok {
			return fmt.Errorf("unexpected object of type %T in a watch of claims", event.Object)
		}
		c.record(event.Type, claim)
	}
	return errors.New("the watch of claims has ended")
}

func (c *changes) record(event watch.EventType, claim *quotav1alpha1.ResourceClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = claim.ResourceVersion
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	switch event {
	case watch.Added, watch.Modified:
		c.latest[name] = change{Compact(claim), claim.ResourceVersion}
	case watch.Deleted:
		c.latest[name] = change{nil, claim.ResourceVersion}
	}
}

// waitFor waits until changes are known up to a version. An API server sends a bookmark about once a minute, even
// without a change.
func (c *changes) waitFor(ctx context.Context, version string) error {
	const poll = 50 * time.Millisecond
	err := wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !isNewer(version, c.version), c.failed
	})
	if err != nil {
		return fmt.Errorf("wait for version %s of claims: %w", version, err)
	}
	return nil
}

// applyTo returns the listed claims with the changes applied. The changes must have reached the version of each.
func (c *changes) applyTo(listed []runtime.Object) *claimList {
	c.mu.Lock()
	defer c.mu.Unlock()
	current := &claimList{Items: listed[:0]}
	current.ResourceVersion = c.version
	for _, object := range listed {
		claim := object.(item)
		after, ok := c.latest[claim.NamespacedName]
		if ok && isNewer(after.version, claim.version) {
			continue
		}
		delete(c.latest, claim.NamespacedName)
		current.Items = append(current.Items, claim)
	}
	for _, after := range c.latest {
		if after.claim != nil {
			current.Items = append(current.Items, item{after.claim, after.version})
		}
	}
	return current
}

// isNewer reports whether a version of the API server is newer than another.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}
