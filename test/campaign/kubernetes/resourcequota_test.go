package kubernetes

import (
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
)

// quota gives the namespace a ResourceQuota of Kubernetes with so many Pods, and waits until Kubernetes enforces it.
func (n *team) quota(limit int64) {
	n.Helper()
	n.create(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "native", Namespace: n.name},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(limit, resource.DecimalSI)}}})
	n.wantQuotaUsed(0)
}

func (n *team) wantQuotaUsed(used int64) {
	n.Helper()
	n.eventually(func() error {
		var quota corev1.ResourceQuota
		if err := n.Get(n.Context(), client.ObjectKey{Namespace: n.name, Name: "native"}, &quota); err != nil {
			return err
		}
		got, ok := quota.Status.Used[corev1.ResourcePods]
		if !ok || got.Value() != used {
			return fmt.Errorf("the ResourceQuota counts %s Pods, want %d", got.String(), used)
		}
		return nil
	})
}

// wantNothingInFlight waits until the team's ledger has no reservation without an object.
func (n *team) wantNothingInFlight() {
	n.Helper()
	n.eventually(func() error {
		var ledgers quotav1alpha1.ConsumerLedgerList
		if err := n.List(n.Context(), &ledgers); err != nil {
			return err
		}
		for _, ledger := range ledgers.Items {
			if ledger.Spec.ConsumerRef.Name == n.name && len(ledger.Spec.Reservations) > 0 {
				return fmt.Errorf("%d reservations are in flight", len(ledger.Spec.Reservations))
			}
		}
		return nil
	})
}

func isRefusedByQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: native, requested: pods=1")
}

// wantRefused checks that an error is a denial with a text.
func (n *team) wantRefused(err error, says string) {
	n.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), says) {
		n.Errorf("got %v, want Forbidden with %q", err, says)
	}
}

func isRefusedByBursar(err error) bool {
	if apierrors.IsTooManyRequests(err) { // failed creates still hold the rest
		return strings.Contains(err.Error(), message.HeldInFlight) || strings.Contains(err.Error(), message.HeldByRequester)
	}
	// Without figures if it takes too long to find out who may see them.
	return apierrors.IsForbidden(err) && (strings.Contains(err.Error(), "exceeded quota: Pod quota of Organization") ||
		strings.Contains(err.Error(), "exceeded quota: the quota of Organization"))
}

// testQuotaIsTighter has Kubernetes deny creates admitted by Bursar. Nobody informs Bursar, so it cancels the
// reservation once the request can no longer succeed.
func testQuotaIsTighter(n *team) {
	n.grant(map[string]int64{pods: 3, memory: 1000 * mebibyte})
	n.quota(2)
	n.create(n.pod("a", 1), n.pod("b", 1))
	if err := n.Create(n.Context(), n.pod("c", 1)); !isRefusedByQuota(err) {
		n.Fatalf("got %v, want it to be refused by the ResourceQuota", err)
	}
	n.wantAllocated(pods, 2, 2)
	n.wantNothingInFlight()
	n.wantAllocated(pods, 2, 2)
	n.wantQuotaUsed(2)
}

// testBursarIsTighter has Bursar deny creates. Kubernetes counts a Pod only after Bursar has admitted it.
func testBursarIsTighter(n *team) {
	n.grant(map[string]int64{pods: 2, memory: 1000 * mebibyte})
	n.quota(3)
	n.create(n.pod("a", 1), n.pod("b", 1))
	for i := range 5 {
		n.wantExceeded(n.creating(n.pod(fmt.Sprint("c-", i), 1)), "Pod", "1 pods", "2", "2")
	}
	n.wantQuotaUsed(2)
	n.wantAllocated(pods, 2, 2)
}

// testChurnInTightQuota and testChurnInQuota create and delete at the limit of the one and of the other.
func testChurnInTightQuota(n *team) { n.churn(1000, 8) }
func testChurnInQuota(n *team)      { n.churn(8, 1000) }

// churn creates and deletes Pods from many clients. Each leaves one behind if it can. Bursar keeps its limit. In the
// end, Kubernetes, Bursar and the API server agree on the number of Pods.
func (n *team) churn(limit, quota int64) {
	const clients, rounds = 16, 12
	n.grant(map[string]int64{pods: limit, memory: 1000 * mebibyte})
	n.quota(quota)
	var group errgroup.Group
	for c := range clients {
		group.Go(func() error {
			for i := range rounds {
				pod := n.pod(fmt.Sprintf("web-%d-%d", c, i), 1)
				if err := n.Create(n.Context(), pod); err != nil {
					// Kubernetes gives up when too many write its ResourceQuota at a time.
					if !isRefusedByQuota(err) && !isRefusedByBursar(err) && !apierrors.IsConflict(err) {
						return fmt.Errorf("create: %w", err)
					}
					continue
				}
				if i == rounds-1 {
					return nil
				}
				if err := n.Delete(n.Context(), pod); err != nil {
					return fmt.Errorf("delete: %w", err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		n.Error(err)
	}
	var list corev1.PodList
	if err := n.List(n.Context(), &list, client.InNamespace(n.name)); err != nil {
		n.Fatal(err)
	}
	left := int64(len(list.Items))
	n.Logf("%d Pods are left", left)
	// There may be none: creates denied by Kubernetes are bounded, with a later retry. There may be more than the
	// ResourceQuota has, because the controller of Kubernetes counts again what its watch has shown so far.
	if left > limit {
		n.Errorf("%d Pods are left, want %d at most", left, limit)
	}
	n.wantAllocated(pods, left, int32(left))
	// With each conflict the controller of Kubernetes waits longer, minutes in the end. After a change of the spec it
	// counts at once.
	n.must(n.setQuota(quota + 1))
	n.wantQuotaUsed(left)
	n.wantNothingInFlight()
	n.wantAllocated(pods, left, int32(left))
}
