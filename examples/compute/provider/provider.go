// Package provider makes the machines of Instances: as Pods in a cluster with nodes, and as records in ConfigMaps
// elsewhere.
package provider

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
)

// Provider makes machines. Each is an object in the namespace of its Instance, with the Instance as its controller. A
// Provider reads from the API server, not from a cache.
type Provider interface {
	// Name is the name of the provider in the status of an Instance.
	Name() string
	// Kind returns an object of the kind of machines.
	Kind() client.Object
	// Get returns the machine of an Instance, or nil if there is none.
	Get(ctx context.Context, instance *computev1alpha1.Instance) (*Machine, error)
	// Ensure creates or updates the machine of an Instance with these resources, regardless of the Instance's spec, and
	// returns its current state. It may take a while to reach the desired state; its object changes then.
	Ensure(ctx context.Context, instance *computev1alpha1.Instance, resources computev1alpha1.Resources) (*Machine, error)
	// Delete deletes the machine of an Instance. It reports whether it is gone.
	Delete(ctx context.Context, instance *computev1alpha1.Instance) (isGone bool, err error)
}

// Machine is the machine of an Instance.
type Machine struct {
	// Resources are the most that the machine may be using now.
	Resources computev1alpha1.Resources
	// Programmed, Running and Ready are the states of the conditions with these names.
	Programmed, Running, Ready State
	// IsEnding is true shortly before the end of the machine.
	IsEnding bool
	// NetworkIP and ExternalIP are its addresses, or empty.
	NetworkIP, ExternalIP string
}

// State is the content of a condition.
type State struct {
	Is              bool
	Reason, Message string
}

// prefix is the prefix of machines' names. It prevents collisions with other objects.
const prefix = "instance-"

// keyOf returns namespace and name of the machine of an Instance.
func keyOf(instance *computev1alpha1.Instance) client.ObjectKey {
	return client.ObjectKey{Namespace: instance.Namespace, Name: prefix + instance.Name}
}

// ErrNameTaken means that another object has the name of an Instance's machine.
var ErrNameTaken = errors.New("it is not the machine of the Instance: delete it, or give the Instance another name")

// read reads the object of a machine into object, and reports whether it exists. The error wraps [ErrNameTaken] if the
// object does not belong to the Instance.
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

// remove deletes the object of a machine, and reports whether it is gone. It does not delete an object of another
// owner.
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
