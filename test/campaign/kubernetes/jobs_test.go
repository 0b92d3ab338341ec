package kubernetes

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testJob has the Job controller of Kubernetes create many more Pods than there is quota for, under a ResourceQuota and
// under Bursar. Finished Pods make room for the rest in both.
func testJob(n *team) {
	const limit = 5
	native := &team{T: n.T, world: n.world, name: "native-job"} // policies are about namespaces that begin with team-
	native.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: native.name}})
	native.quota(limit)
	n.grant(map[string]int64{pods: limit, memory: 1000 * mebibyte})

	for _, each := range []*team{native, n} {
		each.StartNode(each.name, each.name)
		completions := int32(50)
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "batch", Namespace: each.name},
			Spec:       batchv1.JobSpec{Parallelism: &completions, Completions: &completions, Template: corev1.PodTemplateSpec{Spec: each.pod("", 10).Spec}},
		}
		job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever

		began := time.Now()
		each.create(job)
		each.wantSucceeded(job, completions)
		n.Logf("%d completions with %d Pods at a time took %s in %s", completions, limit, time.Since(began).Round(time.Millisecond), each.name)
	}
	n.wantAllocated(pods, 0, 0)
	native.wantQuotaUsed(0)
}

// wantSucceeded waits until so many Pods of a Job have succeeded.
func (n *team) wantSucceeded(job *batchv1.Job, count int32) {
	n.Helper()
	n.eventually(func() error {
		if err := n.Get(n.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.Succeeded != count {
			return fmt.Errorf("%d Pods of the Job have succeeded, want %d: %+v", job.Status.Succeeded, count, job.Status)
		}
		return nil
	})
}

// testRollout replaces the running Pods of a Deployment, at the limit, one after the other.
func testRollout(n *team) {
	n.StartNode(n.name, n.name)
	n.grant(map[string]int64{pods: 3, memory: 30 * mebibyte, replica: 3})
	deployment := n.deployment("web", 3, 10)
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	deployment.Spec.Strategy = appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &none, MaxUnavailable: &one},
	}
	n.create(deployment)
	n.wantRolledOut(deployment)
	n.rollOut(deployment, "second")
	n.wantPods(3, 10)
	n.wantAllocated(replica, 3, 1)
}

// wantRolledOut waits until all Pods of a Deployment are of its template and available.
func (n *team) wantRolledOut(deployment *appsv1.Deployment) {
	n.Helper()
	n.eventually(func() error {
		if err := n.Get(n.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		want := *deployment.Spec.Replicas
		if s := deployment.Status; s.ObservedGeneration != deployment.Generation || s.UpdatedReplicas != want || s.AvailableReplicas != want || s.Replicas != want {
			return fmt.Errorf("the Deployment is not rolled out: %+v", s)
		}
		return nil
	})
}
