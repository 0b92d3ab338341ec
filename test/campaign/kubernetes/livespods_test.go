package kubernetes

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podSteps are the steps of Pods. Each reports false if it is not possible now.
func (l *life) podSteps() []func() bool {
	return []func() bool{
		l.createPod, l.createPod, l.createPod, l.startPod, l.startPod, l.startPod, l.endPod, l.endPod,
		l.resizePod, l.resizePod, l.resizePod, l.actuatePod, l.actuatePod, l.rejectResize,
		l.deletePod, l.deletePod, l.killPod, l.holdPod, l.releasePod,
	}
}

func (l *life) nextName(kind string) string {
	l.made++
	return fmt.Sprintf("%s-%02d", kind, l.made)
}

func oneOf[T any](l *life, values ...T) T { return values[l.IntN(len(values))] }

// createPod makes a Pod with any containers. Each has requests and limits, because a ResourceQuota insists on them.
func (l *life) createPod() bool {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: l.nextName("pod")}, Spec: corev1.PodSpec{Containers: l.containers("c", 1+l.IntN(2))}}
	if l.IntN(3) == 0 {
		pod.Spec.InitContainers = l.containers("i", 1+l.IntN(2))
		for i := range pod.Spec.InitContainers {
			if l.IntN(2) == 0 {
				pod.Spec.InitContainers[i].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			}
		}
	}
	if l.IntN(4) == 0 {
		pod.Spec.RuntimeClassName = new("lives") // with overhead
	}
	if pod.Spec.InitContainers == nil && l.IntN(4) == 0 { // as much as its containers, or more
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: amountsOf("1200m", "800Mi"), Limits: amountsOf("8", "16Gi")}
	}
	if l.IntN(3) == 0 {
		pod.Finalizers = []string{hold}
	}
	return l.both("create "+describePod(pod), func(namespace string) error {
		created := pod.DeepCopy()
		created.Namespace = namespace
		return l.Create(l.Context(), created)
	})
}

func describePod(pod *corev1.Pod) string {
	text := "Pod " + pod.Name
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		text += fmt.Sprintf(", %s %s/%s", c.Name, c.Resources.Requests.Cpu(), c.Resources.Requests.Memory())
		if c.RestartPolicy != nil {
			text += " (sidecar)"
		}
	}
	if pod.Spec.RuntimeClassName != nil {
		text += ", overhead"
	}
	if pod.Spec.Resources != nil {
		text += ", as a whole " + pod.Spec.Resources.Requests.Cpu().String()
	}
	return text
}

func amountsOf(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func (l *life) containers(prefix string, count int) []corev1.Container {
	var all []corev1.Container
	for i := range count {
		c := corev1.Container{Name: fmt.Sprint(prefix, i), Image: "web", Resources: corev1.ResourceRequirements{
			Requests: amountsOf(oneOf(l, "100m", "300m", "500m"), oneOf(l, "64Mi", "200Mi")), Limits: amountsOf(oneOf(l, "1", "2"), oneOf(l, "1Gi", "2Gi")),
		}}
		if l.IntN(3) == 0 {
			c.Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("300Mi")
		}
		all = append(all, c)
	}
	return all
}

// changePod makes a step of any of the Pods that are ready for it.
func (l *life) changePod(what string, isReady func(*corev1.Pod) bool, change func(*corev1.Pod) error) bool {
	name := l.anyPod(isReady)
	if name == "" {
		return false
	}
	return l.both(what+" Pod "+name, func(namespace string) error {
		var pod corev1.Pod
		if err := l.Get(l.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
			return err
		}
		return change(&pod)
	})
}

// anyPod returns the name of a Pod that is ready for something, or "". It leaves out those of Jobs, whose names differ.
func (l *life) anyPod(isReady func(*corev1.Pod) bool) string {
	var list corev1.PodList
	if err := l.List(l.Context(), &list, client.InNamespace(l.namespace(byCore))); err != nil {
		l.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if pod := &list.Items[i]; pod.GenerateName == "" && isReady(pod) {
			names = append(names, pod.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.SortFunc(names, cmp.Compare)
	return oneOf(l, names...)
}

func isEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func isLive(pod *corev1.Pod) bool { return !isEnded(pod) && pod.DeletionTimestamp == nil }

func (l *life) setStatus(object client.Object) error { return l.Status().Update(l.Context(), object) }

// startPod has a Pod run on a node: its containers have what the spec says.
func (l *life) startPod() bool {
	return l.changePod("start", func(pod *corev1.Pod) bool { return isLive(pod) && pod.Status.Phase == corev1.PodPending }, func(pod *corev1.Pod) error {
		if pod.Spec.NodeName == "" {
			binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "lives"}}
			if err := l.SubResource("binding").Create(l.Context(), pod, binding); err != nil {
				return err
			}
			if err := l.Get(l.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
		}
		pod.Status.Phase = corev1.PodRunning
		actuate(pod)
		return l.setStatus(pod)
	})
}

// actuate gives the containers what the spec says.
func actuate(pod *corev1.Pod) {
	statuses := func(containers []corev1.Container) (all []corev1.ContainerStatus) {
		for i := range containers {
			c := containers[i].DeepCopy()
			all = append(all, corev1.ContainerStatus{
				Name: c.Name, Image: "web", ImageID: "web", Resources: &c.Resources, AllocatedResources: c.Resources.Requests,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			})
		}
		return all
	}
	pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = statuses(pod.Spec.Containers), statuses(pod.Spec.InitContainers)
	pod.Status.Conditions = nil
}

func (l *life) endPod() bool {
	phase := oneOf(l, corev1.PodSucceeded, corev1.PodFailed)
	return l.changePod("end by "+string(phase), isLive, func(pod *corev1.Pod) error {
		pod.Status.Phase = phase
		return l.setStatus(pod)
	})
}

// resizePod changes the requests of a container in place. What it has so far stays as it is.
func (l *life) resizePod() bool {
	if !l.hasResize {
		return false
	}
	requests := amountsOf(oneOf(l, "50m", "200m", "600m", "900m"), oneOf(l, "32Mi", "128Mi", "300Mi"))
	what := fmt.Sprintf("resize to %s/%s", requests.Cpu(), requests.Memory())
	return l.changePod(what, func(pod *corev1.Pod) bool { return isLive(pod) && pod.Spec.Resources == nil }, func(pod *corev1.Pod) error {
		for name, amount := range requests {
			pod.Spec.Containers[0].Resources.Requests[name] = amount
		}
		return l.SubResource("resize").Update(l.Context(), pod)
	})
}

func isRunning(pod *corev1.Pod) bool { return isLive(pod) && pod.Status.Phase == corev1.PodRunning }

// actuatePod has a kubelet do a resize, if there is one.
func (l *life) actuatePod() bool {
	return l.changePod("actuate", isRunning, func(pod *corev1.Pod) error {
		actuate(pod)
		return l.setStatus(pod)
	})
}

// rejectResize has a kubelet say that a resize is not feasible on its node.
func (l *life) rejectResize() bool {
	return l.changePod("reject the resize of", isRunning, func(pod *corev1.Pod) error {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, LastTransitionTime: metav1.Now(),
		}}
		return l.setStatus(pod)
	})
}

// deletePod deletes a Pod. On a node it has an hour to end, and counts so long.
func (l *life) deletePod() bool {
	return l.changePod("delete", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil }, func(pod *corev1.Pod) error {
		return l.Delete(l.Context(), pod, client.GracePeriodSeconds(3600))
	})
}

// killPod ends the deletion of a Pod, as its kubelet does. Its finalizers may still hold it.
func (l *life) killPod() bool {
	return l.changePod("kill", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil && *pod.DeletionGracePeriodSeconds > 0 },
		func(pod *corev1.Pod) error { return l.Delete(l.Context(), pod, client.GracePeriodSeconds(0)) })
}

func (l *life) holdPod() bool {
	return l.changePod("hold", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && len(pod.Finalizers) == 0 }, func(pod *corev1.Pod) error {
		pod.Finalizers = []string{hold}
		return l.Update(l.Context(), pod)
	})
}

func (l *life) releasePod() bool {
	return l.changePod("release", func(pod *corev1.Pod) bool { return len(pod.Finalizers) > 0 }, func(pod *corev1.Pod) error {
		pod.Finalizers = nil
		return l.Update(l.Context(), pod)
	})
}
