// Package provider makes the machines of Instances: as Pods where there are Pods, and as notes of machines where there
// are none.
package provider

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
)

// Provider makes machines. Each is an object in the namespace of its Instance, which is its controller. What is returned
// is what the API server has, and not what a cache had.
type Provider interface {
	// Name is what the status of an Instance says that its machine is.
	Name() string
	// Kind is an object of the kind that machines are.
	Kind() client.Object
	// Get returns the machine of an Instance, or nil if there is none.
	Get(ctx context.Context, instance *computev1alpha1.Instance) (*Machine, error)
	// Ensure has a machine be there for an Instance with these resources, whatever the Instance asks for, and returns it as
	// it is now. It may take until later to be as it should; its object changes then.
	Ensure(ctx context.Context, instance *computev1alpha1.Instance, resources computev1alpha1.Resources) (*Machine, error)
	// Delete ends the machine of an Instance, and tells whether it is gone.
	Delete(ctx context.Context, instance *computev1alpha1.Instance) (isGone bool, err error)
}

// Machine is what there is for an Instance.
type Machine struct {
	// Resources are the most that the machine may be using now.
	Resources computev1alpha1.Resources
	// Programmed, Running and Ready are what the conditions of those names are to be.
	Programmed, Running, Ready State
	// IsEnding tells that it is about to be gone.
	IsEnding bool
	// NetworkIP and ExternalIP are its addresses, or empty.
	NetworkIP, ExternalIP string
}

// State is what a condition is to say.
type State struct {
	Is              bool
	Reason, Message string
}

// prefix begins the names of machines, so that they do not take those of other objects.
const prefix = "instance-"

// keyOf is where the machine of an Instance is.
func keyOf(instance *computev1alpha1.Instance) client.ObjectKey {
	return client.ObjectKey{Namespace: instance.Namespace, Name: prefix + instance.Name}
}

// ErrNameTaken is returned for an Instance whose machine cannot be, as another object has its name.
var ErrNameTaken = errors.New("it is not the machine of the Instance: delete it, or give the Instance another name")

// read returns the object of a machine in object, and whether there is one. The error wraps [ErrNameTaken] if the object is
// not that of the Instance.
func read(ctx context.Context, api client.Client, instance *computev1alpha1.Instance, object client.Object) (bool, error) {
	err := api.Get(ctx, keyOf(instance), object)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read the machine of Instance %s/%s: %w", instance.Namespace, instance.Name, err)
	}
	if err != nil {
		return false, nil
	}
	if !metav1.IsControlledBy(object, instance) {
		kind, err := api.GroupVersionKindFor(object)
		return false, errors.Join(err, fmt.Errorf("%s %s is in the way: %w", kind.Kind, keyOf(instance), ErrNameTaken))
	}
	return true, nil
}

// remove deletes the object of a machine, and tells whether it is gone. An object that is not that of the Instance is left
// alone.
func remove(ctx context.Context, api client.Client, instance *computev1alpha1.Instance, object client.Object) (isGone bool, err error) {
	found, err := read(ctx, api, instance, object)
	if errors.Is(err, ErrNameTaken) {
		return true, nil
	}
	if !found || err != nil || object.GetDeletionTimestamp() != nil {
		return !found && err == nil, err
	}
	uid := object.GetUID()
	if err := client.IgnoreNotFound(api.Delete(ctx, object, client.Preconditions{UID: &uid})); err != nil {
		return false, fmt.Errorf("delete the machine of Instance %s/%s: %w", instance.Namespace, instance.Name, err)
	}
	found, err = read(ctx, api, instance, object)
	return !found && err == nil, err
}
