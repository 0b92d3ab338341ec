package kubernetes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testPods creates Pods in every way there is, up to the limit.
func testPods(n *team) {
	n.grant(map[string]int64{pods: 3, memory: 300 * mebibyte})
	first := n.pod("first", 100)
	generated := n.pod("", 100)
	generated.GenerateName = "generated-"
	n.create(first, generated)
	applied := corev1apply.Pod("applied", n.name).WithSpec(corev1apply.PodSpec().WithContainers(
		corev1apply.Container().WithName("web").WithImage("web").WithResources(corev1apply.ResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}))))
	for range 2 { // it is one Pod, despite two applies
		if err := n.Apply(n.Context(), applied, client.FieldOwner("test")); err != nil {
			n.Fatal(err)
		}
	}
	n.wantAllocated(pods, 3, 3)
	n.wantAllocated(memory, 300*mebibyte, 3)

	n.wantExceeded(n.creating(n.pod("fourth", 10)), "Pod", "1 pods", "3", "3")
	n.wantExceeded(func() error {
		return n.Apply(n.Context(), corev1apply.Pod("fourth", n.name).WithSpec(applied.Spec), client.FieldOwner("test"))
	}, "Pod", "1 pods", "3", "3")
	if err := n.Create(n.Context(), n.pod("first", 10)); !apierrors.IsAlreadyExists(err) {
		n.Errorf("a name that is taken: got %v, want AlreadyExists", err)
	}

	// A finished Pod gives its quota back, because the policy says so.
	first.Status.Phase = corev1.PodSucceeded
	if err := n.Status().Update(n.Context(), first); err != nil {
		n.Fatal(err)
	}
	n.createSoon(n.pod("fourth", 100))
	n.wantAllocated(pods, 3, 3)
	if err := n.DeleteAllOf(n.Context(), &corev1.Pod{}, client.InNamespace(n.name)); err != nil {
		n.Fatal(err)
	}
	n.wantAllocated(pods, 0, 0)
	n.wantAllocated(memory, 0, 0)
}

// run makes a Pod run on a node, as the scheduler and a kubelet would.
func (n *team) run(pod *corev1.Pod) {
	n.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourceCPU: resource.MustParse("4")},
	}}
	n.create(node)
	n.runOn(pod)
}

// runOn makes a Pod run on the node of the team.
func (n *team) runOn(pod *corev1.Pod) {
	n.Helper()
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: n.name}}
	if err := n.SubResource("binding").Create(n.Context(), pod, binding); err != nil {
		n.Fatal(err)
	}
	if err := n.Get(n.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		n.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP, pod.Status.PodIPs = "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, Image: "web", ImageID: "web", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		Resources: &pod.Spec.Containers[0].Resources,
	}}
	if err := n.Status().Update(n.Context(), pod); err != nil {
		n.Fatal(err)
	}
}

// testTerminatingPod deletes a running Pod. It holds its charge until the kubelet reports its end.
func testTerminatingPod(n *team) {
	n.grant(map[string]int64{pods: 1, memory: 100 * mebibyte})
	pod := n.pod("first", 100)
	n.create(pod)
	n.run(pod)
	if err := n.Delete(n.Context(), pod); err != nil {
		n.Fatal(err)
	}
	n.wantExceeded(n.creating(n.pod("second", 100)), "Pod", "1 pods", "1", "1")
	n.wantAllocated(pods, 1, 1)
	if err := n.Delete(n.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		n.Fatal(err)
	}
	n.createSoon(n.pod("second", 100))
	n.wantAllocated(pods, 1, 1)
}

// testResize changes the requests of a running Pod.
func testResize(n *team) {
	if !n.serves(n.T, "v1", "pods/resize") {
		n.Skip("this API server cannot resize Pods")
	}
	n.grant(map[string]int64{pods: 1, memory: 250 * mebibyte})
	pod := n.pod("web", 100)
	n.create(pod)
	n.run(pod)
	resize := func(memory int64) error {
		patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"web","resources":{"requests":{"memory":"%dMi"}}}]}}`, memory)
		return n.SubResource("resize").Patch(n.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	}
	if err := resize(200); err != nil {
		n.Fatal(err)
	}
	n.wantAllocated(memory, 200*mebibyte, 1)
	n.wantExceeded(func() error { return resize(300) }, memory, "100 MiB", "200", "250")
	if err := resize(50); err != nil {
		n.Fatal(err)
	}
	n.wantAllocated(memory, 100*mebibyte, 1) // which the container still has

	n.must(n.Get(n.Context(), client.ObjectKeyFromObject(pod), pod))
	pod.Status.ContainerStatuses[0].Resources = &pod.Spec.Containers[0].Resources
	n.must(n.Status().Update(n.Context(), pod))
	n.wantAllocated(memory, 50*mebibyte, 1)
	n.wantAllocated(pods, 1, 1)
}

// testNamespace deletes a namespace with all its objects.
func testNamespace(n *team) {
	n.grant(map[string]int64{pods: 5, memory: 500 * mebibyte, replica: 5})
	n.create(n.pod("web", 100), n.deployment("web", 2, 100))
	n.wantPods(3, 100)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
	if err := n.Delete(n.Context(), namespace); err != nil {
		n.Fatal(err)
	}
	n.eventually(func() error {
		if err := n.Get(n.Context(), client.ObjectKeyFromObject(namespace), namespace); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the namespace is still there: %v, %+v", err, namespace.Status)
		}
		return nil
	})
	n.wantAllocated(pods, 0, 0)
	n.wantAllocated(replica, 0, 0)
}
