package cluster

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// node is the scheduler and the kubelet of one node, for the Pods of one namespace. It runs no container. A Pod with
// restarting containers runs until its deletion, and any other succeeds at once.
type node struct {
	name string
	api  kubernetes.Interface
	pods cache.SharedIndexInformer
	todo workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// StartNode adds a node for the Pods of a namespace, until the test ends.
func (c *Cluster) StartNode(name, namespace string) {
	c.t.Helper()
	api, err := kubernetes.NewForConfig(c.Servers[0].Config())
	if err != nil {
		c.t.Fatal(err)
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("1000"),
	}
	created := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	if _, err := api.CoreV1().Nodes().Create(c.t.Context(), created, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithNamespace(namespace))
	n := &node{
		name: name, api: api, pods: factory.Core().V1().Pods().Informer(),
		todo: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](10*time.Millisecond, time.Second)),
	}
	add := func(object any) {
		if key, err := cache.ObjectToName(object); err == nil {
			n.todo.Add(key)
		}
	}
	if _, err := n.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }}); err != nil {
		c.t.Fatal(err)
	}
	factory.Start(c.t.Context().Done())
	go n.work(c.t.Context())
	context.AfterFunc(c.t.Context(), n.todo.ShutDown)
}

func (n *node) work(ctx context.Context) {
	for {
		key, shutdown := n.todo.Get()
		if shutdown {
			return
		}
		if err := n.reconcile(ctx, key); err == nil || apierrors.IsNotFound(err) {
			n.todo.Forget(key)
		} else {
			n.todo.AddRateLimited(key)
		}
		n.todo.Done(key)
	}
}

// reconcile does the next step of the scheduler or a kubelet for a Pod.
func (n *node) reconcile(ctx context.Context, key cache.ObjectName) error {
	object, exists, err := n.pods.GetStore().GetByKey(key.String())
	if err != nil || !exists {
		return err
	}
	pod := object.(*corev1.Pod).DeepCopy()
	pods := n.api.CoreV1().Pods(pod.Namespace)
	switch {
	case pod.DeletionTimestamp != nil:
		now := int64(0)
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	case pod.Spec.NodeName == "":
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: n.name}}
		return pods.Bind(ctx, binding, metav1.CreateOptions{})
	case pod.Status.Phase == corev1.PodPending:
		pod.Status.Phase = corev1.PodRunning
		ready := corev1.ConditionTrue
		if pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
			pod.Status.Phase, ready = corev1.PodSucceeded, corev1.ConditionFalse
		}
		started := metav1.Now()
		pod.Status.StartTime = &started
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: ready, LastTransitionTime: started})
		_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	}
	return nil
}
