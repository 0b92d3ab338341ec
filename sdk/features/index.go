package features

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// index has the quota of each consumer by resource type. The zero value is empty.
type index struct {
	mu         sync.RWMutex
	byConsumer map[quotav1alpha1.ConsumerRef]map[string]quota
}

// quota has the figures of an effective grant.
type quota struct {
	// object is its namespace and name: an effective grant exists twice during a move.
	object                 string
	limit, used, available int64
	feature                quotav1alpha1.FeatureState
	display                *quotav1alpha1.DisplayedQuota
}

func quotaOf(shown *quotav1alpha1.EffectiveResourceGrant) quota {
	s := &shown.Status
	return quota{
		object: shown.Namespace + "/" + shown.Name, limit: s.TotalLimit, used: s.TotalAllocated, available: s.Available, feature: s.Feature, display: s.Display,
	}
}

// displayedLimit is the limit as a string flag. It is empty without an active registration.
func (q quota) displayedLimit() string {
	if q.display == nil {
		return ""
	}
	return q.display.TotalLimit
}

// set records the quota of an effective grant, and reports whether a flag has another value: the use is not a change of
// configuration.
func (x *index) set(shown *quotav1alpha1.EffectiveResourceGrant) (hasChanged bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byConsumer == nil {
		x.byConsumer = map[quotav1alpha1.ConsumerRef]map[string]quota{}
	}
	types := x.byConsumer[shown.Spec.ConsumerRef]
	if types == nil {
		types = map[string]quota{}
		x.byConsumer[shown.Spec.ConsumerRef] = types
	}
	before, isKnown := types[shown.Spec.ResourceType]
	after := quotaOf(shown)
	types[shown.Spec.ResourceType] = after
	return !isKnown || before.limit != after.limit || before.feature != after.feature || before.displayedLimit() != after.displayedLimit()
}

// remove removes the quota of an effective grant, unless another one shows it now.
func (x *index) remove(shown *quotav1alpha1.EffectiveResourceGrant) (hasChanged bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	types := x.byConsumer[shown.Spec.ConsumerRef]
	before, isKnown := types[shown.Spec.ResourceType]
	if !isKnown || before.object != quotaOf(shown).object {
		return false
	}
	if delete(types, shown.Spec.ResourceType); len(types) == 0 {
		delete(x.byConsumer, shown.Spec.ConsumerRef)
	}
	return true
}

// find returns the quota of a consumer for a flag, and false if it has none.
func (x *index) find(consumer quotav1alpha1.ConsumerRef, key string) (found quota, isFound bool, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	types := x.byConsumer[consumer]
	if exact, ok := types[key]; ok {
		return exact, true, nil
	}
	var ends []string
	for resourceType, each := range types {
		if resourceType[strings.LastIndex(resourceType, "/")+1:] == key {
			ends, found = append(ends, resourceType), each
		}
	}
	if len(ends) > 1 {
		slices.Sort(ends)
		return quota{}, false, fmt.Errorf("several resource types end in %s: %s; use the whole name", key, strings.Join(ends, ", "))
	}
	return found, len(ends) == 1, nil
}
