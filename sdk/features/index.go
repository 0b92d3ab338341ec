package features

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// index has the quota of each consumer by resource type. The zero value is empty.
type index struct {
	mu sync.RWMutex
	// byConsumer has the quota of each effective grant, by consumer and resource type: during a move to another
	// namespace, there are two.
	byConsumer map[quotav1alpha1.ConsumerRef]map[string][]quota
	// byEnd counts the objects of each resource type of any consumer, by the last part of the type.
	byEnd map[string]map[string]int
}

// quota has the figures of an effective grant.
type quota struct {
	// object is the namespace and name of the effective grant.
	object string
	// created is the creation of the effective grant.
	created                time.Time
	limit, used, available int64
	feature                quotav1alpha1.FeatureState
	display                *quotav1alpha1.DisplayedQuota
}

func quotaOf(shown *quotav1alpha1.EffectiveResourceGrant) quota {
	s := &shown.Status
	return quota{
		object: objectOf(shown), created: shown.CreationTimestamp.Time,
		limit: s.TotalLimit, used: s.TotalAllocated, available: s.Available, feature: s.Feature, display: s.Display,
	}
}

// displayedLimit is the limit as a string flag. It is empty without an active registration.
func (q quota) displayedLimit() string {
	if q.display == nil {
		return ""
	}
	return q.display.TotalLimit
}

// differs reports whether a flag has another value: the use is not a change of configuration.
func (q quota) differs(other quota) bool {
	return q.limit != other.limit || q.feature != other.feature || q.displayedLimit() != other.displayedLimit()
}

// set records the quota of an effective grant, and reports whether a flag has another value.
func (x *index) set(shown *quotav1alpha1.EffectiveResourceGrant) (hasChanged bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	consumer, resourceType := shown.Spec.ConsumerRef, shown.Spec.ResourceType
	if x.byConsumer == nil {
		x.byConsumer, x.byEnd = map[quotav1alpha1.ConsumerRef]map[string][]quota{}, map[string]map[string]int{}
	}
	if x.byConsumer[consumer] == nil {
		x.byConsumer[consumer] = map[string][]quota{}
	}
	objects := x.byConsumer[consumer][resourceType]
	before, wasKnown := newest(objects)
	if n := indexOf(objects, shown); n >= 0 {
		objects[n] = quotaOf(shown)
	} else {
		objects = append(objects, quotaOf(shown))
		end := endOf(resourceType)
		if x.byEnd[end] == nil {
			x.byEnd[end] = map[string]int{}
		}
		x.byEnd[end][resourceType]++
	}
	x.byConsumer[consumer][resourceType] = objects
	after, _ := newest(objects)
	return !wasKnown || after.differs(before)
}

// remove removes the quota of an effective grant, and reports whether a flag has another value.
func (x *index) remove(shown *quotav1alpha1.EffectiveResourceGrant) (hasChanged bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	consumer, resourceType := shown.Spec.ConsumerRef, shown.Spec.ResourceType
	objects := x.byConsumer[consumer][resourceType]
	n := indexOf(objects, shown)
	if n < 0 {
		return false
	}
	before, _ := newest(objects)
	objects = slices.Delete(objects, n, n+1)
	x.byConsumer[consumer][resourceType] = objects
	x.forgetEmpty(consumer, resourceType)
	after, isKnown := newest(objects)
	return !isKnown || after.differs(before)
}

// forgetEmpty drops what is empty after the removal of an object.
func (x *index) forgetEmpty(consumer quotav1alpha1.ConsumerRef, resourceType string) {
	types, end := x.byConsumer[consumer], endOf(resourceType)
	if len(types[resourceType]) == 0 {
		delete(types, resourceType)
	}
	if len(types) == 0 {
		delete(x.byConsumer, consumer)
	}
	if x.byEnd[end][resourceType]--; x.byEnd[end][resourceType] == 0 {
		delete(x.byEnd[end], resourceType)
	}
	if len(x.byEnd[end]) == 0 {
		delete(x.byEnd, end)
	}
}

// find returns the quota of a consumer for a flag, and false if it has none.
func (x *index) find(consumer quotav1alpha1.ConsumerRef, key string) (found quota, isFound bool, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	resourceType, err := x.typeOf(key)
	if err != nil {
		return quota{}, false, err
	}
	found, isFound = newest(x.byConsumer[consumer][resourceType])
	return found, isFound, nil
}

// typeOf returns the resource type with a key: the key itself, or the only type that ends in it. The types of all
// consumers count, so a key never names another type for a consumer that lacks the one of others.
func (x *index) typeOf(key string) (string, error) {
	if x.byEnd[endOf(key)][key] > 0 {
		return key, nil
	}
	ends := slices.Sorted(maps.Keys(x.byEnd[key]))
	switch len(ends) {
	case 0:
		return key, nil
	case 1:
		return ends[0], nil
	default:
		return "", fmt.Errorf("several resource types end in %s: %s; use the whole name", key, strings.Join(ends, ", "))
	}
}

// newest returns the quota of the newest of some objects, or false without any. During a move, Bursar updates the
// newest and deletes the others. Only after a move back, it keeps the older one: that counts after the deletion.
func newest(objects []quota) (found quota, isFound bool) {
	for i := range objects {
		q := &objects[i]
		if !isFound || cmp.Or(q.created.Compare(found.created), cmp.Compare(q.object, found.object)) > 0 {
			found, isFound = *q, true
		}
	}
	return found, isFound
}

// indexOf returns the place of an effective grant in some objects, or -1.
func indexOf(objects []quota, shown *quotav1alpha1.EffectiveResourceGrant) int {
	object := objectOf(shown)
	return slices.IndexFunc(objects, func(q quota) bool { return q.object == object })
}

// objectOf is the namespace and name of an effective grant.
func objectOf(shown *quotav1alpha1.EffectiveResourceGrant) string {
	return shown.Namespace + "/" + shown.Name
}

// endOf is the last part of a resource type.
func endOf(resourceType string) string {
	return resourceType[strings.LastIndex(resourceType, "/")+1:]
}
