package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/test/await"
)

// A deployment far too large keeps only a few replicas waiting. These and the next ones take new quota.
func TestBackOff(t *testing.T) {
	t.Parallel()
	p := newProject(t, amounts{7, 1_000_000, 1 << 20})
	deployment := p.deploy(500, resources("1", "1Gi"), computev1alpha1.ReplicaQuota{WaitingReplicasMax: 5})
	await.NoError(p, converges, func() error {
		said := p.counts(deployment, 7, 7, 493, 0)
		if instances := len(p.instances()); !strings.HasSuffix(said, "; 5 of them are created and wait") || instances != 12 {
			return fmt.Errorf("there are %d Instances, want 7 and 5: %s", instances, said)
		}
		return nil
	})
	p.setGrant(amounts{60, 1_000_000, 1 << 20})
	p.counts(deployment, 60, 60, 440, 0)
	p.uses(60, 60_000)

	// A smaller number of replicas removes waiting ones first, and no ready one.
	change(p, deployment, func(d *computev1alpha1.WorkloadDeployment) { d.Spec.Replicas = new(int32(60)) })
	if said := p.counts(deployment, 60, 60, 0, 0); !strings.HasPrefix(said, "True") {
		t.Errorf("got %q", said)
	}
	change(p, deployment, func(d *computev1alpha1.WorkloadDeployment) { d.Spec.Replicas = new(int32(0)) })
	p.counts(deployment, 0, 0, 0, 0)
	p.uses(0, 0)
}

// The service deletes replicas after their maximum wait. They come back once there is quota, or once the deployment
// changes.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	p := newProject(t, amounts{2, 1_000_000, 64 << 10})
	ttl := computev1alpha1.ReplicaQuota{WaitingTTL: &metav1.Duration{Duration: time.Second}}
	deployment := p.deploy(5, resources("1", "1Gi"), ttl)
	said := p.counts(deployment, 2, 2, 3, 3)
	if want := "; 3 of them are created once there is quota, as they have waited for 1s"; !strings.HasSuffix(said, want) {
		t.Errorf("got %q, want it to end in %q", said, want)
	}
	await.NoError(p, converges, func() error {
		if left := len(p.instances()); left != 2 {
			return fmt.Errorf("%d Instances are left", left)
		}
		return nil
	})
	p.setGrant(amounts{4, 1_000_000, 64 << 10})
	p.counts(deployment, 4, 4, 1, 1)
	p.uses(4, 4000)
	change(p, deployment, func(d *computev1alpha1.WorkloadDeployment) { d.Spec.Quota.WaitingTTL = nil })
	p.counts(deployment, 4, 4, 1, 0)
	await.NoError(p, converges, func() error { // the service writes the status before it creates Instances
		if got := len(p.instances()); got != 5 {
			return fmt.Errorf("there are %d Instances, want one that waits as well", got)
		}
		return nil
	})
}

// A new template reaches all Instances, one by one. Each keeps its resources until there is quota for more.
func TestRollOut(t *testing.T) {
	t.Parallel()
	p := newProject(t, amounts{4, 6000, 64 << 10})
	deployment := p.deploy(4, resources("1", "1Gi"), none)
	p.counts(deployment, 4, 4, 0, 0)
	updated := func(want int32) {
		t.Helper()
		await.NoError(p, converges, func() error {
			must(p, admin.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
			if s := deployment.Status; s.UpdatedReplicas != want || s.ReadyReplicas != 4 || s.ObservedGeneration != deployment.Generation {
				return fmt.Errorf("%d of %d ready replicas are updated, want %d of 4", s.UpdatedReplicas, s.ReadyReplicas, want)
			}
			return nil
		})
	}
	change(p, deployment, func(d *computev1alpha1.WorkloadDeployment) { d.Spec.Template.Spec.Resources = resources("2", "1Gi") })
	updated(2)
	p.uses(4, 6000)
	p.setGrant(amounts{4, 8000, 64 << 10})
	updated(4)
	p.uses(4, 8000)
	change(p, deployment, func(d *computev1alpha1.WorkloadDeployment) { d.Spec.Template.Spec.Image = "image:2" })
	updated(4)
	for _, instance := range p.instances() {
		if instance.Spec.Image != "image:2" {
			t.Errorf("Instance %s has %s", instance.Name, instance.Spec.Image)
		}
	}
}

// A deployment unable to create its Instances gives the reason.
func TestCannotCreate(t *testing.T) {
	t.Parallel()
	p := newProject(t, amounts{10, 10_000, 64 << 10})
	deployment := deploymentWith(p, none)
	deployment.Spec.Template.Metadata.Labels = map[string]string{"app": "no label"}
	must(p, admin.Create(t.Context(), deployment))
	await.NoError(p, converges, func() error {
		var list eventsv1.EventList
		must(p, admin.List(t.Context(), &list, client.InNamespace(p.name)))
		for _, event := range list.Items {
			if event.Reason == "FailedCreate" && event.Regarding.Name == "wld" && strings.Contains(event.Note, `create Instance wld-0: `) && strings.Contains(event.Note, "no label") {
				return nil
			}
		}
		return fmt.Errorf("%d events do not say it", len(list.Items))
	})
}

// The service leaves somebody else's object with the name of a replica alone.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	p := newProject(t, amounts{10, 10_000, 64 << 10})
	foreign := p.create("wld-1", resources("1", "1Gi"))
	deployment := p.deploy(2, resources("1", "1Gi"), none)
	p.counts(deployment, 2, 2, 0, 0)
	p.isReady(foreign)
	if metav1.GetControllerOf(foreign) != nil {
		t.Error("it belongs to the deployment")
	}
	must(p, admin.Delete(t.Context(), deployment))
	p.uses(1, 1000)
}

// The service stops and starts again while Instances wait, and catches up with the changes meanwhile. No other test
// needs the service at that time.
func TestRestartOfTheService(t *testing.T) {
	p := newProject(t, amounts{1, 10_000, 64 << 10})
	first, second := p.create("first", resources("1", "1Gi")), p.create("second", resources("1", "1Gi"))
	deployment := p.deploy(3, resources("1", "1Gi"), none)
	await.NoError(p, converges, func() error {
		for _, instance := range p.instances() {
			if instance.Status.Reason != "QuotaExceeded" && instance.Status.Reason != "Simulated" {
				return fmt.Errorf("%s is %s", instance.Name, instance.Status.Reason)
			}
		}
		if n := len(p.instances()); n != 5 {
			return fmt.Errorf("there are %d Instances", n)
		}
		return nil
	})
	must(p, compute.stop())
	third := p.create("third", resources("1", "1Gi"))
	must(p, admin.Delete(t.Context(), second))
	must(p, admin.Delete(t.Context(), first))
	p.setGrant(amounts{4, 10_000, 64 << 10})
	compute.start()
	p.isReady(third)
	p.counts(deployment, 3, 3, 0, 0)
	p.uses(4, 4000)
	if got := len(p.machines()); got != 4 {
		t.Errorf("there are %d machines", got)
	}
}
