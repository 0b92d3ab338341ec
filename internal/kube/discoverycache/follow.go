package discoverycache

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

const (
	// settleTime is how long a change waits for more before discovery.
	settleTime = 100 * time.Millisecond
	// recheckTime is the delay before discovery is repeated after a change: a new kind can be established a moment
	// before discovery lists it. Each further delay is twice as long.
	recheckTime = 250 * time.Millisecond
	// refreshInterval is the longest time between two discoveries. Kinds of aggregated API servers come and go without
	// a CustomResourceDefinition, and are noticed within it.
	refreshInterval = 30 * time.Second
)

// Run follows the served kinds until ctx ends, and calls the handlers after changes.
func (k *Cache) Run(ctx context.Context) error {
	if err := k.followDefinitions(ctx); err != nil {
		return err
	}
	var known *served
	wait := refreshInterval
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			wait = min(2*wait, refreshInterval)
		case <-k.changed:
			if !settle(ctx) {
				return nil
			}
			wait = recheckTime
		}
		known = k.refresh(known)
		timer.Reset(wait)
	}
}

// refresh runs discovery, calls the handlers unless they know the result, and returns what they know now. If discovery
// fails, their next call gets its error, and the next refresh is soon.
func (k *Cache) refresh(known *served) *served {
	k.invalidate()
	s, err := k.current()
	if err != nil || s.equal(known) {
		return known
	}
	k.notify()
	return s
}

// followDefinitions requests a refresh after every relevant change of a CustomResourceDefinition.
func (k *Cache) followDefinitions(ctx context.Context) error {
	factory := apiextensionsinformers.NewSharedInformerFactory(k.definitions, 0)
	informer := factory.Apiextensions().V1().CustomResourceDefinitions().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.recordDefinition(obj, false) },
		DeleteFunc: func(obj any) { k.recordDefinition(obj, true) },
		UpdateFunc: func(before, after any) {
			a, aOK := before.(*apiextensionsv1.CustomResourceDefinition)
			b, bOK := after.(*apiextensionsv1.CustomResourceDefinition)
			if !aOK || !bOK || affectsServed(a, b) {
				k.requestRefresh()
			}
		},
	})
	if err != nil {
		return fmt.Errorf("follow the definitions of kinds: %w", err)
	}
	factory.StartWithContext(ctx)
	return nil
}

// recordDefinition records a created or deleted definition.
func (k *Cache) recordDefinition(obj any, isDeleted bool) {
	if final, is := obj.(cache.DeletedFinalStateUnknown); is {
		obj = final.Obj
	}
	if definition, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
		kind := schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}
		k.mu.Lock()
		if k.deleted == nil {
			k.deleted = map[schema.GroupKind]struct{}{}
		}
		if isDeleted {
			k.deleted[kind] = struct{}{}
		} else {
			delete(k.deleted, kind)
		}
		k.mu.Unlock()
	}
	k.requestRefresh()
}

// DefinitionDeleted reports whether the CustomResourceDefinition of a kind was deleted, and not created again since.
func (k *Cache) DefinitionDeleted(kind schema.GroupKind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, is := k.deleted[kind]
	return is
}

// affectsServed reports whether the change of a definition can change the served kinds.
func affectsServed(before, after *apiextensionsv1.CustomResourceDefinition) bool {
	return before.Generation != after.Generation ||
		isEstablished(before) != isEstablished(after) ||
		!equality.Semantic.DeepEqual(before.Status.AcceptedNames, after.Status.AcceptedNames)
}

func isEstablished(definition *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// requestRefresh requests a refresh soon.
func (k *Cache) requestRefresh() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// settle lets further changes arrive, and reports whether ctx is still active.
func settle(ctx context.Context) bool {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
