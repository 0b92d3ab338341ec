package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
)

const (
	// machineContainer is the container of a Pod that is a machine.
	machineContainer = "machine"
	// annotationImage on a Pod is the image of its Instance. A webhook may have changed the image of the container.
	annotationImage = "compute.datumapis.com/image"
)

// Pods runs machines as Pods with dedicated resources. It resizes them in place, with Kubernetes 1.33 and later. Only
// 1.34 and later can reduce their memory. Otherwise Ensure returns the reason.
type Pods struct {
	// Client reads Pods from the API server, not from a cache.
	Client client.Client
	// GPU is the extended resource of nodes with one unit for each GPU.
	GPU corev1.ResourceName
}

// Name implements [Provider].
func (Pods) Name() string { return "Pod" }

// Kind implements [Provider].
func (Pods) Kind() client.Object { return &corev1.Pod{} }

// Get implements [Provider].
func (p Pods) Get(ctx context.Context, instance *computev1alpha1.Instance) (*Machine, error) {
	pod := &corev1.Pod{}
	if found, err := read(ctx, p.Client, instance, pod); !found || err != nil {
		return nil, err
	}
	return p.machine(pod), nil
}

// Ensure implements [Provider]. It replaces a Pod that has ended, for example by an eviction, or has another image.
func (p Pods) Ensure(ctx context.Context, instance *computev1alpha1.Instance, resources computev1alpha1.Resources) (*Machine, error) {
	pod := &corev1.Pod{}
	found, err := read(ctx, p.Client, instance, pod)
	if err != nil {
		return nil, err
	}
	if !found {
		if pod, err = p.create(ctx, instance, resources); err != nil {
			return nil, fmt.Errorf("create the Pod of Instance %s/%s: %w", instance.Namespace, instance.Name, err)
		}
		return p.machine(pod), nil
	}
	if isEnding(pod) || pod.Annotations[annotationImage] != instance.Spec.Image {
		_, err := p.Delete(ctx, instance) // its deletion triggers a reconcile
		return p.ending(pod), err
	}
	if desired := p.requirements(resources); !equality.Semantic.DeepEqual(containerOf(pod).Resources.Requests, desired.Requests) {
		containerOf(pod).Resources = desired
		if err := p.Client.SubResource("resize").Update(ctx, pod); err != nil {
			if isUnserved(err) {
				err = errCannotResize
			}
			return p.machine(pod), fmt.Errorf("resize the Pod of Instance %s/%s: %w", instance.Namespace, instance.Name, err)
		}
	}
	return p.machine(pod), nil
}

// errCannotResize means that the API server has no subresource to resize Pods.
var errCannotResize = errors.New("only Kubernetes 1.33 and later can: give the Instance its former resources, or replace it")

// isUnserved reports whether a call failed because the API server lacks the resource, and not only the object.
func isUnserved(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == "" // an object would have its name here
}

func (p Pods) create(ctx context.Context, instance *computev1alpha1.Instance, resources computev1alpha1.Resources) (*corev1.Pod, error) {
	key := keyOf(instance)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: maps.Clone(instance.Labels), Annotations: map[string]string{annotationImage: instance.Spec.Image},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false),
			Containers:                   []corev1.Container{{Name: machineContainer, Image: instance.Spec.Image, Resources: p.requirements(resources)}},
		},
	}
	if err := controllerutil.SetControllerReference(instance, pod, p.Client.Scheme()); err != nil {
		return nil, err
	}
	return pod, p.Client.Create(ctx, pod)
}

// requirements returns the requirements of a container with dedicated resources.
func (p Pods) requirements(resources computev1alpha1.Resources) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resources.VCPUs, corev1.ResourceMemory: resources.Memory}
	if resources.GPUs > 0 {
		list[p.GPU] = *resource.NewQuantity(int64(resources.GPUs), resource.DecimalSI)
	}
	return corev1.ResourceRequirements{Requests: list, Limits: maps.Clone(list)}
}

// Delete implements [Provider].
func (p Pods) Delete(ctx context.Context, instance *computev1alpha1.Instance) (isGone bool, err error) {
	return remove(ctx, p.Client, instance, &corev1.Pod{})
}

func (p Pods) machine(pod *corev1.Pod) *Machine {
	condition := func(kind corev1.PodConditionType) State {
		for _, c := range pod.Status.Conditions {
			if c.Type == kind && (c.Status == corev1.ConditionTrue || c.Reason != "") {
				return State{Is: c.Status == corev1.ConditionTrue, Reason: cmp.Or(c.Reason, string(kind)), Message: c.Message}
			}
		}
		return State{Reason: "Provisioning", Message: "The Pod " + pod.Name + " has not reported this yet"}
	}
	machine := &Machine{
		Resources: p.used(pod), NetworkIP: pod.Status.PodIP,
		Programmed: condition(corev1.PodScheduled), Ready: condition(corev1.PodReady),
		Running: State{Is: pod.Status.Phase == corev1.PodRunning, Reason: cmp.Or(string(pod.Status.Phase), "Provisioning"), Message: pod.Status.Message},
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue {
			machine.Programmed = State{Reason: cmp.Or(c.Reason, string(c.Type)), Message: c.Message}
		}
	}
	if isEnding(pod) {
		return p.ending(pod)
	}
	return machine
}

// ending returns the machine of a Pod that has ended, or is about to.
func (p Pods) ending(pod *corev1.Pod) *Machine {
	state := State{Reason: "Restarting", Message: "The Pod " + pod.Name + " has ended, or is ending"}
	return &Machine{Resources: p.used(pod), IsEnding: true, NetworkIP: pod.Status.PodIP, Programmed: state, Running: state, Ready: state}
}

// used returns the resources a Pod may use: its requests or, until the end of a resize, the earlier ones if they are
// larger.
func (p Pods) used(pod *corev1.Pod) computev1alpha1.Resources {
	requests := maps.Clone(containerOf(pod).Resources.Requests)
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name != machineContainer || status.Resources == nil {
			continue
		}
		for name, amount := range status.Resources.Requests {
			if amount.Cmp(requests[name]) > 0 {
				requests[name] = amount
			}
		}
	}
	gpus := requests[p.GPU]
	return computev1alpha1.Resources{VCPUs: requests[corev1.ResourceCPU], Memory: requests[corev1.ResourceMemory], GPUs: int32(gpus.Value())}
}

// isEnding reports whether a Pod will never run again.
func isEnding(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// containerOf returns the container of the machine. A webhook may have added other containers.
func containerOf(pod *corev1.Pod) *corev1.Container {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == machineContainer })
	return &pod.Spec.Containers[max(i, 0)]
}
