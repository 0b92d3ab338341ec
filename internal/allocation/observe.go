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

// ErrBehind means that an observation is older than the one in the state.
var ErrBehind = errors.New("the observation is older than the one in the state")

// Observation is an observation of the member namespaces at one time.
type Observation struct {
	// Versions identify the time of the observation.
	Versions quotav1alpha1.ObservedResourceQuotas
	// Used is, for each member namespace, the largest amount of each resource in any of its ResourceQuotas with the
	// scopes of the allocation.
	Used map[string]corev1.ResourceList
	// Quotas are the existing ResourceQuotas of pending changes, with any scopes.
	Quotas map[types.NamespacedName]QuotaVersion
	// Deleted are the UIDs of the deleted ResourceQuotas among those of pending changes.
	Deleted map[types.UID]bool
}

// QuotaVersion identifies one state of a ResourceQuota.
type QuotaVersion struct {
	UID             types.UID
	ResourceVersion string
}

// Observe returns the state with a new observation, without the changes that took effect or never will. If nothing is
// different, it returns the same state with its former versions. The error is [ErrBehind], or comes from an
// incomparable version.
func (s *State) Observe(o Observation) (*State, error) {
	if err := s.checkVersions(o.Versions); err != nil {
		return nil, err
	}
	return s.ObserveLive(o)
}

// ObserveLive is Observe for a list of the API server, newer than the state and so never behind.
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

// checkVersions compares versions with those of the state.
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

// stillPending returns the changes that may still take effect.
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

// isDone reports whether a change took effect by the time of an observation, or never will, because its former version
// no longer exists.
//
// A change is not done before the observation has the namespace as it was at admission. Until then the observation may
// lack the namespace as a member, and its amounts.
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
		seen = o.Versions.ResourceQuotas // deleted, or not observed yet
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
