package protected

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/kinds"
)

// Kinds tells what may be done with the objects of a kind.
type Kinds interface {
	StateOf(ctx context.Context, kind schema.GroupKind) (kinds.State, schema.GroupVersionResource, error)
}

// Lives asks the API server whether the object of that kind and name exists with that UID. It
// fails where that cannot be found out, as while the kind is not served.
func (o *Objects) Lives(ctx context.Context, groupKind schema.GroupKind, name types.NamespacedName, uid types.UID) (bool, error) {
	state, resource, err := o.states.StateOf(ctx, groupKind)
	switch {
	case err != nil:
		return false, err
	case state == kinds.Undefined:
		return false, nil
	case state == kinds.Withheld:
		return false, fmt.Errorf("cannot tell whether %s %s exists: the kind is defined, but not served now", groupKind, name)
	default:
		return o.Exists(ctx, resource, name, uid)
	}
}

// IsUndefined tells whether there is no such kind, and so there are no objects. It is false where
// that cannot be found out.
func (o *Objects) IsUndefined(ctx context.Context, groupKind schema.GroupKind) bool {
	state, _, err := o.states.StateOf(ctx, groupKind)
	return err == nil && state == kinds.Undefined
}

// Exists asks the API server whether the object of that name exists with that UID. An empty
// uid stands for any.
func (o *Objects) Exists(ctx context.Context, resource schema.GroupVersionResource, name types.NamespacedName, uid types.UID) (bool, error) {
	object, err := o.client.Resource(resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if isObjectNotFound(err, name.Name) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up %s %s: %w", resource.Resource, name, err)
	}
	return uid == "" || object.UID == uid, nil
}

// isObjectNotFound tells whether it is the object that was not found, and not its kind.
func isObjectNotFound(err error, name string) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Name == name
}
