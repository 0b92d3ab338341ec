package kubernetes

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testJob has the Job controller of Kubernetes create more Pods than there is quota for. Finished Pods hold their
// charge until their deletion, and then the Job gets the rest.
func testJob(n *team) {
	n.StartNode(n.name, n.name)
	n.grant(map[string]int64{pods: 2, memory: 1000 * mebibyte})
	wanted := int32(4)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "batch", Namespace: n.name},
		Spec:       batchv1.JobSpec{Parallelism: &wanted, Completions: &wanted, Template: corev1.PodTemplateSpec{Spec: n.pod("", 10).Spec}},
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	n.create(job)
	n.wantSucceeded(job, 2)
	n.wantPods(2, 10)
	if err := n.DeleteAllOf(n.Context(), &corev1.Pod{}, client.InNamespace(n.name)); err != nil {
		n.Fatal(err)
	}
	n.wantSucceeded(job, 4)
	n.wantPods(2, 10)
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
