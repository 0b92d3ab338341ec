package kubernetes

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func (n *team) deployment(name string, replicas int32, memory int64) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: n.name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: n.pod("", memory).Spec},
		},
	}
}

// wantPods waits until the namespace has so many Pods, each with its claim.
func (n *team) wantPods(count int64, memoryEach int64) {
	n.Helper()
	n.eventually(func() error {
		var list corev1.PodList
		if err := n.List(n.Context(), &list, client.InNamespace(n.name)); err != nil {
			return err
		}
		if int64(len(list.Items)) != count {
			return fmt.Errorf("there are %d Pods, want %d", len(list.Items), count)
		}
		return nil
	})
	n.wantAllocated(pods, count, int32(count))
	n.wantAllocated(memory, count*memoryEach*mebibyte, int32(count))
}

// testReplicaSet has the ReplicaSet controller of Kubernetes create more Pods than there is quota for. The
// ReplicaSet says so, and the Pods come once there is room.
func testReplicaSet(n *team) {
	n.grant(map[string]int64{pods: 3, memory: 1000 * mebibyte, replica: 10})
	deployment := n.deployment("web", 5, 10)
	n.create(deployment)
	n.wantPods(3, 10)
	n.eventually(func() error {
		var sets appsv1.ReplicaSetList
		if err := n.List(n.Context(), &sets, client.InNamespace(n.name)); err != nil {
			return err
		}
		// Its controller may not read the quota, so the condition has no figures.
		want := fmt.Sprintf("exceeded quota: the quota of Organization %s does not allow it (Pod)", n.name)
		for _, set := range sets.Items {
			for _, condition := range set.Status.Conditions {
				if condition.Type == appsv1.ReplicaSetReplicaFailure && strings.Contains(condition.Message, want) {
					return nil
				}
			}
		}
		return fmt.Errorf("no ReplicaSet says %q: %+v", want, sets.Items)
	})
	grant := &quotav1alpha1.ResourceGrant{}
	if err := n.Get(n.Context(), client.ObjectKey{Namespace: n.name, Name: n.name}, grant); err != nil {
		n.Fatal(err)
	}
	for i, allowance := range grant.Spec.Allowances {
		if allowance.ResourceType == pods {
			grant.Spec.Allowances[i].Buckets[0].Amount = 5
		}
	}
	if err := n.Update(n.Context(), grant); err != nil {
		n.Fatal(err)
	}
	n.wantPods(5, 10)

	// The controller replaces deleted Pods, at the limit.
	if err := n.DeleteAllOf(n.Context(), &corev1.Pod{}, client.InNamespace(n.name)); err != nil {
		n.Fatal(err)
	}
	n.wantPods(5, 10)
	if err := n.Delete(n.Context(), deployment); err != nil {
		n.Fatal(err)
	}
	n.wantPods(0, 10)
	n.wantAllocated(replica, 0, 0)
}

// testScale scales a Deployment as an autoscaler would.
func testScale(n *team) {
	n.grant(map[string]int64{pods: 10, memory: 1000 * mebibyte, replica: 5})
	deployment := n.deployment("web", 3, 10)
	n.create(deployment)
	scale := func(replicas int32) error {
		s := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: deployment.Name, Namespace: n.name}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
		return n.SubResource("scale").Update(n.Context(), deployment, client.WithSubResourceBody(s))
	}
	n.wantAllocated(replica, 3, 1)
	if err := scale(5); err != nil {
		n.Fatal(err)
	}
	n.wantAllocated(replica, 5, 1)
	n.wantExceeded(func() error { return scale(6) }, replica, "1 replicas", "5", "5")
	n.wantPods(5, 10)
	if err := scale(2); err != nil {
		n.Fatal(err)
	}
	n.wantAllocated(replica, 2, 1)
	n.wantPods(2, 10)
}
