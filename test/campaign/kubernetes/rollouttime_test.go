package kubernetes

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/test/kit"
	"github.com/bursar/bursar/test/process"
)

// rolledPods are the Pods of a Deployment in a namespace with quota for no others.
const rolledPods = 20

// TestRolloutTime rolls out Deployments at the limit: without quota, under a ResourceQuota of Kubernetes and under
// Bursar. It logs the times. The variable ROLLOUTS is the number of rollouts, by default 1.
func TestRolloutTime(t *testing.T) {
	rounds := process.Count(t, "ROLLOUTS", 1)
	w := newWorld(t)
	w.startReplica(t)
	w.setUp(t)
	none, quarter := intstr.FromInt32(0), intstr.FromString("25%")

	for _, under := range []struct {
		name, namespace string // policies are about namespaces that begin with team-
		limit           func(*team)
	}{
		{"no quota", "free", func(*team) {}},
		{"ResourceQuota", "native", (*team).limitNatively},
		{"Bursar", "team-rollout", func(n *team) {
			n.grant(kit.Amounts{pods: rolledPods, memory: rolledPods * mebibyte, replica: rolledPods})
		}},
	} {
		n := w.newTeam(t, under.namespace)
		n.StartNode(n.name, n.name)
		under.limit(n)
		for _, strategy := range []struct {
			name  string
			surge *intstr.IntOrString
		}{{"default", &quarter}, {"without surge", &none}} {
			deployment := n.deployment("web", rolledPods, 1)
			deployment.Spec.Strategy = appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: strategy.surge, MaxUnavailable: &quarter},
			}
			n.create(deployment)
			n.wantRolledOut(deployment)

			var took []time.Duration
			for round := range rounds {
				took = append(took, n.rollOut(deployment, fmt.Sprint("r", round)).Round(time.Millisecond))
			}
			t.Logf("%d Pods under %s, strategy %s: %v", rolledPods, under.name, strategy.name, took)

			n.must(n.Delete(n.Context(), deployment))
			n.eventually(func() error {
				var left corev1.PodList
				if err := n.List(n.Context(), &left, client.InNamespace(n.name)); err != nil || len(left.Items) > 0 {
					return fmt.Errorf("%d Pods are left: %w", len(left.Items), err)
				}
				return nil
			})
		}
	}
}

// limitNatively has a ResourceQuota limit what Bursar limits for others.
func (n *team) limitNatively() {
	n.create(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "native", Namespace: n.name}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{
			corev1.ResourcePods:           *resource.NewQuantity(rolledPods, resource.DecimalSI),
			corev1.ResourceRequestsMemory: *resource.NewQuantity(rolledPods*mebibyte, resource.BinarySI),
		},
	}})
	n.wantQuotaUsed(0)
}

// rollOut changes the template of a Deployment, and returns the time until all Pods are of it.
func (n *team) rollOut(deployment *appsv1.Deployment, release string) time.Duration {
	n.Helper()
	began := time.Now()
	n.eventually(func() error {
		if err := n.Get(n.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		deployment.Spec.Template.Labels["release"] = release
		return n.Update(n.Context(), deployment)
	})
	n.wantRolledOut(deployment)
	return time.Since(began)
}
