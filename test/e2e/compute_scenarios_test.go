package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/sdk/claims"
	"github.com/bursar/bursar/test/await"
)

var none computev1alpha1.ReplicaQuota

// The API server creates an Instance beyond quota, and the Instance waits. Its condition names the missing resources
// and the next step.
func TestExceeded(t *testing.T) {
	t.Parallel()
	p := newProject(t, amounts{10, 16000, 64 << 10})
	p.isReady(p.create("first", resources("16", "1Gi")))
	instance := p.create("second", resources("4", "1Gi"))
	said := p.says(instance, claims.ConditionQuotaGranted, metav1.ConditionFalse, "QuotaExceeded").Message
	want := "exceeded quota: compute.datumapis.com/vcpus quota of Project testexceeded, requested: 4 vCPUs, used: 16, limited: 16. " +
		"To increase the limit, upgrade the plan of testexceeded or contact support. The claim waits, and is granted by itself once there is room. " +
		"To see its quota: kubectl get ergrant -n "
	if !strings.HasPrefix(said, want) {
		t.Errorf("got %q, want it to begin with %q", said, want)
	}
	for _, kind := range []string{"Programmed", "Running", "Ready"} {
		if said := p.says(instance, kind, metav1.ConditionFalse, "PendingQuota").Message; said != "Waiting for quota claim to be granted" {
			t.Errorf("%s says %q", kind, said)
		}
	}
	if instance.Status.Reason != "QuotaExceeded" || len(p.machines()) != 1 {
		t.Errorf("the reason is %q, and there are machines %v", instance.Status.Reason, p.machines())
	}
}

// A deployment of ten with room for seven has seven ready, and counts the shortfall. The others go on with more quota.
func TestShortfall(t *testing.T) {
	t.Parallel()
	p := newProject(t, amounts{7, 100_000, 64 << 10})
	deployment := p.deploy(10, resources("1", "1Gi"), none)
	await.NoError(p, converges, func() error { // the figures come with the effective grant, a little later
		said := p.counts(deployment, 7, 7, 3, 0)
		if want := "False QuotaExceeded: 3 of 10 desired replicas are pending quota (compute.datumapis.com/instances: 7/7 instances used)"; said != want {
			return fmt.Errorf("got %q, want %q", said, want)
		}
		return nil
	})
	if got := len(p.instances()); got != 10 {
		t.Errorf("there are %d Instances, want all 10", got)
	}
	if s := deployment.Status; s.DesiredReplicas != 10 || s.UpdatedReplicas != 7 {
		t.Errorf("the status is %+v", s)
	}
	p.setGrant(amounts{20, 100_000, 64 << 10})
	if said := p.counts(deployment, 10, 10, 0, 0); said != "True AllReady: 10 of 10 desired replicas are ready" {
		t.Errorf("got %q", said)
	}
	p.uses(10, 10_000)
}

// Deleting a waiting Instance releases nothing and provisions nothing. A running one returns its quota once its machine
// is gone.
func TestDeletedInstances(t *testing.T) {
	t.Parallel()
	p := newProject(t, amounts{1, 4000, 64 << 10})
	first := p.create("first", resources("4", "1Gi"))
	p.isReady(first)
	second := p.create("second", resources("4", "1Gi"))
	p.says(second, claims.ConditionQuotaGranted, metav1.ConditionFalse, "QuotaExceeded")
	must(p, admin.Delete(t.Context(), second))
	await.NoError(p, converges, func() error {
		if left := len(p.instances()); left != 1 {
			return fmt.Errorf("%d Instances are left", left)
		}
		return nil
	})
	p.uses(1, 4000)
	must(p, admin.Delete(t.Context(), first))
	p.uses(0, 0)
	if machines := p.machines(); len(machines) != 0 {
		t.Errorf("there are machines %v", machines)
	}
}

// The test deletes Instances at the very moment of their grant.
func TestDeletedAsGranted(t *testing.T) {
	t.Parallel()
	const rounds, each = 5, 8
	p := newProject(t, amounts{0, 0, 0})
	for round := range rounds {
		p.setGrant(amounts{0, 0, 0})
		p.isInForce()
		var all []*computev1alpha1.Instance
		for n := range each {
			all = append(all, p.create(fmt.Sprintf("i-%d-%d", round, n), resources("1", "1Gi")))
		}
		for _, instance := range all {
			p.says(instance, claims.ConditionQuotaGranted, metav1.ConditionFalse, "QuotaExceeded")
		}
		raised := make(chan struct{})
		go func() {
			defer close(raised)
			before := p.grant.DeepCopy()
			p.grant.Spec.Allowances = amounts{each, each * 1000, 64 << 10}.allowances()
			if err := admin.Patch(t.Context(), p.grant, client.MergeFrom(before)); err != nil {
				t.Error(err)
			}
		}()
		for _, instance := range all {
			must(p, admin.Delete(t.Context(), instance))
		}
		<-raised
		await.NoError(p, converges, func() error {
			if left, machines := len(p.instances()), p.machines(); left != 0 || len(machines) != 0 {
				return fmt.Errorf("%d Instances and the machines %v are left", left, machines)
			}
			return nil
		})
		p.uses(0, 0)
	}
	last := p.create("last", resources("8", "1Gi"))
	p.isReady(last)
}
