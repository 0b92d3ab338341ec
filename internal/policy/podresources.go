package policy

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"
	resourcehelper "k8s.io/component-helpers/resource"
)

// podResources declares podRequests(trigger, "cpu") and podLimits(trigger, "cpu"): what a Pod, or each Pod of a Pod
// template, takes of a resource. The scheduler and ResourceQuotas call the same code of Kubernetes. Nobody writes it in
// CEL without a mistake: init containers, sidecars, the overhead, resources of the Pod as a whole, and resizes that are
// not done yet.
func podResources() []cel.EnvOption {
	return []cel.EnvOption{
		podFunction("podRequests", resourcehelper.PodRequests),
		podFunction("podLimits", resourcehelper.PodLimits),
	}
}

func podFunction(name string, sum func(*corev1.Pod, resourcehelper.PodResourcesOptions) corev1.ResourceList) cel.EnvOption {
	evaluate := func(object, resourceName ref.Val) ref.Val {
		text, ok := resourceName.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(resourceName)
		}
		if _, isPod := find(object, "spec", "containers"); !isPod {
			return types.NewErr("%s: the first argument has no spec.containers; it takes a Pod or a Pod template", name)
		}

		reader := podReader{function: name, resource: string(text)}
		pod := reader.pod(object)
		if reader.err != nil {
			return reader.err
		}
		// As ResourceQuotas do, see their evaluator of Pods.
		amount := sum(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})[corev1.ResourceName(text)]
		return apiservercel.Quantity{Quantity: &amount}
	}
	return cel.Function(name, cel.Overload("dyn_string_"+name, []*cel.Type{cel.DynType, cel.StringType}, apiservercel.QuantityType, cel.BinaryBinding(evaluate)))
}

// podReader reads what decides how much of one resource a Pod takes. A whole Pod would cost much more to decode.
type podReader struct {
	function, resource string
	// err is the first error.
	err ref.Val
}

func (r *podReader) pod(object ref.Val) *corev1.Pod {
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{
			Containers: r.containers(object, "containers"), InitContainers: r.containers(object, "initContainers"),
			Overhead: r.amounts(object, "spec", "overhead"), Resources: r.requirements(object, "spec", "resources"),
		},
		Status: corev1.PodStatus{
			ContainerStatuses:     r.containerStatuses(object, "containerStatuses"),
			InitContainerStatuses: r.containerStatuses(object, "initContainerStatuses"),
		},
	}
	for _, condition := range items(object, "status", "conditions") {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(textAt(condition, "type")), Reason: textAt(condition, "reason"),
		})
	}
	return pod
}

func (r *podReader) containers(pod ref.Val, list string) []corev1.Container {
	var all []corev1.Container
	for _, item := range items(pod, "spec", list) {
		container := corev1.Container{Name: textAt(item, "name")}
		if requirements := r.requirements(item, "resources"); requirements != nil {
			container.Resources = *requirements
		}
		if policy := corev1.ContainerRestartPolicy(textAt(item, "restartPolicy")); policy != "" {
			container.RestartPolicy = &policy
		}
		all = append(all, container)
	}
	return all
}

func (r *podReader) containerStatuses(pod ref.Val, list string) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, item := range items(pod, "status", list) {
		all = append(all, corev1.ContainerStatus{
			Name: textAt(item, "name"), Resources: r.requirements(item, "resources"), AllocatedResources: r.amounts(item, "allocatedResources"),
		})
	}
	return all
}

// requirements returns the requests and limits at a path, or nil if there is nothing.
func (r *podReader) requirements(object ref.Val, path ...string) *corev1.ResourceRequirements {
	value, found := find(object, path...)
	if _, isMap := value.(traits.Mapper); !found || !isMap {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: r.amounts(value, "requests"), Limits: r.amounts(value, "limits")}
}

// amounts returns the amount of the resource at a path, if there is one.
func (r *podReader) amounts(object ref.Val, path ...string) corev1.ResourceList {
	list, found := find(object, path...)
	if !found {
		return nil
	}
	value, found := find(list, r.resource)
	if !found {
		return nil
	}

	switch v := value.(type) {
	case types.Int:
		return corev1.ResourceList{corev1.ResourceName(r.resource): *resource.NewQuantity(int64(v), resource.DecimalSI)}
	case types.String:
		if quantityForm.MatchString(string(v)) {
			if quantity, err := resource.ParseQuantity(string(v)); err == nil {
				return corev1.ResourceList{corev1.ResourceName(r.resource): quantity}
			}
		}
	}
	if r.err == nil {
		r.err = types.NewErr("%s: %.40v is not a quantity", r.function, value.Value())
	}
	return nil
}

// items returns the items of the list at a path. There are none if there is no list.
func items(object ref.Val, path ...string) []ref.Val {
	value, _ := find(object, path...)
	list, isList := value.(traits.Lister)
	if !isList {
		return nil
	}
	var all []ref.Val
	for it := list.Iterator(); it.HasNext() == types.True; {
		all = append(all, it.Next())
	}
	return all
}

// textAt returns the text of a field, or "" if there is none.
func textAt(object ref.Val, name string) string {
	value, _ := find(object, name)
	text, _ := value.(types.String)
	return string(text)
}
