package objectcache

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/kube/discoverycache"
)

// unavailableMax is how long the objects of an unavailable kind count as existing while a policy names the kind. No API
// server serves the kind and no CustomResourceDefinition defines it: an upgrade may remove and restore an aggregated
// API server.
const unavailableMax = 6 * time.Hour

// stateOf returns the state of a kind. It fails while an unavailable kind may come back.
func (o *Cache) stateOf(ctx context.Context, groupKind schema.GroupKind) (discoverycache.State, schema.GroupVersionResource, error) {
	state, resource, err := o.states.StateOf(ctx, groupKind)
	if err != nil || state != discoverycache.Undefined || o.isExpected == nil || !o.isExpected(groupKind) || o.states.DefinitionDeleted(groupKind) {
		return state, resource, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	since, isKnown := o.unavailable[groupKind]
	if !isKnown {
		since = time.Now()
		o.unavailable[groupKind] = since
	}
	if time.Since(since) > unavailableMax {
		return state, resource, nil
	}
	return 0, resource, fmt.Errorf("cannot tell whether objects of kind %s exist, because the kind is not served: they count until %s, or until no policy names the kind",
		groupKind, since.Add(unavailableMax).UTC().Format(time.RFC3339))
}

// IsAlive asks the API server whether an object of the kind exists under the name and UID. It fails if the answer is
// unknown, as for a kind not served now.
func (o *Cache) IsAlive(ctx context.Context, groupKind schema.GroupKind, name types.NamespacedName, uid types.UID) (bool, error) {
	state, resource, err := o.stateOf(ctx, groupKind)
	switch {
	case err != nil:
		return false, err
	case state == discoverycache.Undefined:
		return false, nil
	case state == discoverycache.NotServed:
		return false, fmt.Errorf("cannot tell whether %s %s exists: the kind is defined, but not served now", groupKind, name)
	default:
		return o.Exists(ctx, resource, name, uid)
	}
}

// IsUndefined reports whether the kind does not exist, and so has no objects. It is false if the answer is unknown, and
// while the kind may come back.
func (o *Cache) IsUndefined(ctx context.Context, groupKind schema.GroupKind) bool {
	state, _, err := o.stateOf(ctx, groupKind)
	return err == nil && state == discoverycache.Undefined
}

// Exists asks the API server whether an object of the resource exists under the name and UID. An empty uid matches any.
func (o *Cache) Exists(ctx context.Context, resource schema.GroupVersionResource, name types.NamespacedName, uid types.UID) (bool, error) {
	object, err := o.client.Resource(resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if isObjectNotFound(err, name.Name) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up %s %s: %w", resource.Resource, name, err)
	}
	return uid == "" || object.UID == uid, nil
}

// Find reads the metadata of the object with a kind and name from the API server. It returns nil without such an object
// or kind, and fails if the answer is unknown.
func (o *Cache) Find(ctx context.Context, groupKind schema.GroupKind, name types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	state, resource, err := o.stateOf(ctx, groupKind)
	switch {
	case err != nil:
		return nil, err
	case state == discoverycache.Undefined:
		return nil, nil
	case state == discoverycache.NotServed:
		return nil, fmt.Errorf("cannot tell whether %s %s exists: the kind is defined, but not served now", groupKind, name)
	}
	object, err := o.client.Resource(resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		return object, nil
	case isObjectNotFound(err, name.Name) || apierrors.IsNotFound(err) && o.isServed(ctx, resource):
		return nil, nil // the kind may be namespaced and the name not, or the other way round
	default:
		return nil, fmt.Errorf("look up %s %s: %w", resource.Resource, name, err)
	}
}

// isServed asks the API server whether it serves a resource.
func (o *Cache) isServed(ctx context.Context, resource schema.GroupVersionResource) bool {
	_, err := o.client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
	return err == nil
}

// isObjectNotFound reports whether the object was not found, and not its kind.
func isObjectNotFound(err error, name string) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Name == name
}
