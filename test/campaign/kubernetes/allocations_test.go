package kubernetes

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// testAllocation caps how many Pods the ResourceQuotas of two namespaces may give together. Within the cap, Kubernetes
// allows as many as the quotas give.
func testAllocation(n *team) {
	other := n.newTeam(n.T, n.name+"-other")
	allocation := n.allocate(5, n, other)
	n.grant(map[string]int64{pods: 100, memory: 1000 * mebibyte})
	n.quota(2)
	other.quota(2)
	n.create(n.pod("a", 1), n.pod("b", 1))
	n.wantRefused(n.Create(n.Context(), n.pod("c", 1)), "exceeded quota: native, requested: pods=1, used: pods=2, limited: pods=2")

	n.must(n.setQuota(3))
	n.createSoon(n.pod("c", 1))
	n.wantRefused(n.Create(n.Context(), n.pod("d", 1)), "exceeded quota: native, requested: pods=1, used: pods=3, limited: pods=3")
	n.wantRefused(n.setQuota(4), "exceeded ResourceQuotaAllocation: "+allocation.Name+", requested: pods=4, allocated: pods=5, limited: pods=5")
	n.wantRefused(other.setQuota(3), "exceeded ResourceQuotaAllocation: "+allocation.Name+", requested: pods=3, allocated: pods=5, limited: pods=5")

	// Quota returned by the one is free for the other.
	n.must(other.setQuota(1))
	n.eventually(func() error { return n.setQuota(4) })
	n.createSoon(n.pod("d", 1))
	n.wantRefused(n.Create(n.Context(), n.pod("e", 1)), "exceeded quota: native, requested: pods=1, used: pods=4, limited: pods=4")
	n.wantQuotaUsed(4)
	n.eventually(func() error {
		if err := n.Get(n.Context(), client.ObjectKeyFromObject(allocation), allocation); err != nil {
			return err
		}
		if got := allocation.Status.Allocated.Used[corev1.ResourcePods]; got.Value() != 5 {
			return fmt.Errorf("the allocation says that %s Pods are taken, want 5", got.String())
		}
		return nil
	})
}

// allocate caps how many Pods the ResourceQuotas of teams give together, and waits until Bursar enforces the cap.
func (n *team) allocate(limit int64, teams ...*team) *quotav1alpha1.ResourceQuotaAllocation {
	n.Helper()
	selected := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn}
	for _, each := range teams {
		selected.Values = append(selected.Values, each.name)
	}
	allocation := &quotav1alpha1.ResourceQuotaAllocation{ObjectMeta: metav1.ObjectMeta{Name: n.name}, Spec: quotav1alpha1.ResourceQuotaAllocationSpec{
		Selector:   metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{selected}},
		Allocation: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(limit, resource.DecimalSI)}},
	}}
	n.create(allocation)
	n.eventually(func() error {
		if err := n.Get(n.Context(), client.ObjectKeyFromObject(allocation), allocation); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(allocation.Status.Conditions, quotav1alpha1.ConditionReady) {
			return fmt.Errorf("the allocation is not enforced: %+v", allocation.Status.Conditions)
		}
		return nil
	})
	return allocation
}

// setQuota changes how many Pods the team's ResourceQuota gives. Kubernetes writes its status at the same time.
func (n *team) setQuota(limit int64) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		quota := &corev1.ResourceQuota{}
		err := n.Get(n.Context(), client.ObjectKey{Namespace: n.name, Name: "native"}, quota)
		quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(limit, resource.DecimalSI)}
		return errors.Join(err, n.Update(n.Context(), quota))
	})
}
