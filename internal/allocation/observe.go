package allocation

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	quota "k8s.io/apiserver/pkg/quota/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// ErrBehind is returned for an observation that is older than that which the books are made from.
var ErrBehind = errors.New("what was observed is older than what the books were made from")

// Observation is the projects of an allocation at one time.
type Observation struct {
	// Versions tell which time that is.
	Versions quotav1alpha1.ObservedResourceQuotas
	// Used is, for each project, the largest amount of each resource that one of those ResourceQuotas gives
	// that count.
	Used map[string]corev1.ResourceList
	// Quotas are those ResourceQuotas that the raises are of which are pending, whether they count or not, as
	// far as they are there.
	Quotas map[types.NamespacedName]QuotaVersion
	// Gone are those of the ResourceQuotas that raises are of which were seen and were deleted.
	Gone map[types.UID]bool
}

// QuotaVersion tells one state of a ResourceQuota from every other.
type QuotaVersion struct {
	UID             types.UID
	ResourceVersion string
}

// Observe returns the books with what was observed in place of what they say of projects, and without the raises
// that were made or never will be. Where nothing is different they are the same, with the versions that they name.
// The error is [ErrBehind], or says that a version cannot be read.
func (b *Books) Observe(o Observation) (*Books, error) {
	if err := b.checkVersions(o.Versions); err != nil {
		return nil, err
	}
	return b.ObserveLive(o)
}

// ObserveLive is Observe for what the API server listed after the books were read, which is never behind.
func (b *Books) ObserveLive(o Observation) (*Books, error) {
	observed := map[string]corev1.ResourceList{}
	for project, used := range o.Used {
		if used := b.ofCapped(used); len(used) > 0 {
			observed[project] = used
		}
	}
	pending, err := b.unseen(o)
	if err != nil {
		return nil, err
	}
	unlimited := Unlimited(o.Used, b.capped)
	limited := limited(unlimited, len(o.Used))
	isPruned := len(pending) < len(b.pending)
	isSame := b.limited != nil && b.limited.Message == limited.Message && b.limited.Status == limited.Status
	if b.IsObserved() && !isPruned && isSame && maps.EqualFunc(observed, b.observed, quota.Equals) {
		return b, nil
	}
	next, object := *b, *b.object
	object.Status.Observed, object.Status.ObservedGeneration = o.Versions, object.Generation
	next.object, next.observed, next.pending, next.isComplete = &object, observed, pending, true
	next.unlimited, next.limited = unlimited[:min(len(unlimited), unlimitedMax)], &limited
	next.sum()
	next.isStatusChanged = true
	next.isLedgerChanged = b.isLedgerChanged || isPruned
	next.isRoomChanged = b.isRoomChanged || !b.IsObserved() || !maps.EqualFunc(next.taken, b.taken, quota.Equals)
	return &next, nil
}

// checkVersions compares versions with those that the books are made from.
func (b *Books) checkVersions(versions quotav1alpha1.ObservedResourceQuotas) error {
	before := b.object.Status.Observed
	for _, v := range [][2]string{{versions.ResourceQuotas, before.ResourceQuotas}, {versions.Namespaces, before.Namespaces}} {
		if v[1] == "" {
			continue
		}
		order, err := resourceversion.CompareResourceVersion(v[0], v[1])
		if err != nil {
			return fmt.Errorf("compare resource versions %q and %q: %w", v[0], v[1], err)
		}
		if order < 0 {
			return ErrBehind
		}
	}
	return nil
}

// unseen returns the raises that may still be made.
func (b *Books) unseen(o Observation) ([]Raise, error) {
	var unseen []Raise
	for _, p := range b.pending {
		done, err := isDone(p, o)
		if err != nil {
			return nil, err
		}
		if !done {
			unseen = append(unseen, p)
		}
	}
	return slices.Clip(unseen), nil
}

// isDone tells whether a raise was made by the time of an observation, or cannot be made any more: the version
// that it replaces is not there any more.
//
// Nor is it done before the namespace is seen as it was when the raise was admitted: until then the namespace may
// not be taken for a project, and what it has for nothing.
func isDone(raise Raise, o Observation) (bool, error) {
	order, err := resourceversion.CompareResourceVersion(o.Versions.Namespaces, raise.NamespaceVersion)
	if err != nil {
		return false, fmt.Errorf("compare resource versions %q and %q of namespace %s: %w", o.Versions.Namespaces, raise.NamespaceVersion, raise.Namespace, err)
	}
	if order < 0 {
		return false, nil
	}
	found := o.Quotas[types.NamespacedName{Namespace: raise.Namespace, Name: raise.Name}]
	if raise.ResourceVersion == "" || o.Gone[raise.UID] {
		return found.UID == raise.UID || o.Gone[raise.UID], nil
	}
	seen := found.ResourceVersion
	if found.UID != raise.UID {
		seen = o.Versions.ResourceQuotas // it was deleted, unless it is not seen yet
	}
	order, err = resourceversion.CompareResourceVersion(seen, raise.ResourceVersion)
	if err != nil {
		return false, fmt.Errorf("compare resource versions %q and %q of ResourceQuota %s/%s: %w", seen, raise.ResourceVersion, raise.Namespace, raise.Name, err)
	}
	if found.UID != raise.UID {
		return order >= 0, nil
	}
	return order > 0, nil
}
