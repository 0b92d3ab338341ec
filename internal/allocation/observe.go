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
	// Deleted are those of the ResourceQuotas that raises are of which were seen and were deleted.
	Deleted map[types.UID]bool
}

// QuotaVersion tells one state of a ResourceQuota from every other.
type QuotaVersion struct {
	UID             types.UID
	ResourceVersion string
}

// Observe returns the books with what was observed in place of what they say of projects, and without the raises
// that were made or never will be. Where nothing is different they are the same, with the versions that they name.
// The error is [ErrBehind], or says that a version cannot be read.
func (s *State) Observe(o Observation) (*State, error) {
	if err := s.checkVersions(o.Versions); err != nil {
		return nil, err
	}
	return s.ObserveLive(o)
}

// ObserveLive is Observe for what the API server listed after the books were read, which is never behind.
func (s *State) ObserveLive(o Observation) (*State, error) {
	observed := map[string]corev1.ResourceList{}
	for namespace, used := range o.Used {
		if used := s.onlyCapped(used); len(used) > 0 {
			observed[namespace] = used
		}
	}
	pending, err := s.stillPending(o)
	if err != nil {
		return nil, err
	}
	unlimited := Unlimited(o.Used, s.capped)
	limited := limited(unlimited, len(o.Used))
	isPruned := len(pending) < len(s.pending)
	isSame := s.limited != nil && s.limited.Message == limited.Message && s.limited.Status == limited.Status
	if s.IsObserved() && !isPruned && isSame && maps.EqualFunc(observed, s.observed, quota.Equals) {
		return s, nil
	}
	next, object := *s, *s.object
	object.Status.Observed, object.Status.ObservedGeneration = o.Versions, object.Generation
	next.object, next.observed, next.pending, next.isComplete = &object, observed, pending, true
	next.unlimited, next.limited = unlimited[:min(len(unlimited), unlimitedMax)], &limited
	next.sum()
	next.isStatusChanged = true
	next.isLedgerChanged = s.isLedgerChanged || isPruned
	next.isRoomChanged = s.isRoomChanged || !s.IsObserved() || !maps.EqualFunc(next.taken, s.taken, quota.Equals)
	return &next, nil
}

// checkVersions compares versions with those that the books are made from.
func (s *State) checkVersions(versions quotav1alpha1.ObservedResourceQuotas) error {
	before := s.object.Status.Observed
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
func (s *State) stillPending(o Observation) ([]QuotaChange, error) {
	var unseen []QuotaChange
	for _, p := range s.pending {
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
func isDone(change QuotaChange, o Observation) (bool, error) {
	order, err := resourceversion.CompareResourceVersion(o.Versions.Namespaces, change.NamespaceVersion)
	if err != nil {
		return false, fmt.Errorf("compare resource versions %q and %q of namespace %s: %w", o.Versions.Namespaces, change.NamespaceVersion, change.Namespace, err)
	}
	if order < 0 {
		return false, nil
	}
	found := o.Quotas[types.NamespacedName{Namespace: change.Namespace, Name: change.Name}]
	if change.ResourceVersion == "" || o.Deleted[change.UID] {
		return found.UID == change.UID || o.Deleted[change.UID], nil
	}
	seen := found.ResourceVersion
	if found.UID != change.UID {
		seen = o.Versions.ResourceQuotas // it was deleted, unless it is not seen yet
	}
	order, err = resourceversion.CompareResourceVersion(seen, change.ResourceVersion)
	if err != nil {
		return false, fmt.Errorf("compare resource versions %q and %q of ResourceQuota %s/%s: %w", seen, change.ResourceVersion, change.Namespace, change.Name, err)
	}
	if found.UID != change.UID {
		return order >= 0, nil
	}
	return order > 0, nil
}
