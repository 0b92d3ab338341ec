package features

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/open-feature/go-sdk/openfeature"
	toolscache "k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// eventsMax is how many events wait for a reader. Further changes join the next event.
const eventsMax = 16

// index has the quota of each consumer by resource type. The zero value is empty.
type index struct {
	mu         sync.RWMutex
	byConsumer map[quotav1alpha1.ConsumerRef]map[string]quota
	// unsent are the changed resource types not yet in an event.
	unsent []string
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

// handler keeps the index up to date, and sends an event for each change of a limit.
func (p *Provider) handler() toolscache.ResourceEventHandler {
	set := func(object any, isInitial bool) {
		if shown, ok := object.(*quotav1alpha1.EffectiveResourceGrant); ok && p.index.set(shown) && !isInitial {
			p.send(shown.Spec.ResourceType)
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, object any) { set(object, false) },
		DeleteFunc: func(object any) {
			if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if shown, ok := object.(*quotav1alpha1.EffectiveResourceGrant); ok && p.index.remove(shown) {
				p.send(shown.Spec.ResourceType)
			}
		},
	}
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
	before, after := types[shown.Spec.ResourceType], quotaOf(shown)
	types[shown.Spec.ResourceType] = after
	return before.limit != after.limit || before.feature != after.feature
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

// EventChannel implements [openfeature.EventHandler]. There is an event for each changed limit. OpenFeature itself
// emits the event that the provider is ready.
func (p *Provider) EventChannel() <-chan openfeature.Event { return p.events }

// send sends an event about a changed resource type. If nobody reads the events, it goes with the next one.
func (p *Provider) send(resourceType string) {
	p.index.mu.Lock()
	defer p.index.mu.Unlock()
	if !slices.Contains(p.index.unsent, resourceType) {
		p.index.unsent = append(p.index.unsent, resourceType)
	}
	select {
	case p.events <- openfeature.Event{
		ProviderName: Name, EventType: openfeature.ProviderConfigChange,
		ProviderEventDetails: openfeature.ProviderEventDetails{Message: "quota has changed", FlagChanges: p.index.unsent},
	}:
		p.index.unsent = nil
	default:
	}
}
