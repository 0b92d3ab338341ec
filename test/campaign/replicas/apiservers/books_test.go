package apiservers

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// wantBooks waits until every object has one granted claim, the ledger says the same, with nothing in
// flight, and the bucket too. It returns how many objects there are.
func wantBooks(t *testing.T, api client.Client) (objects int64) {
	t.Helper()
	eventually(t, func() (err error) {
		objects, err = checkBooks(t, api)
		return err
	})
	return objects
}

func checkBooks(t *testing.T, api client.Client) (int64, error) {
	var maps corev1.ConfigMapList
	var claims quotav1alpha1.ResourceClaimList
	var buckets quotav1alpha1.AllowanceBucketList
	var ledgers quotav1alpha1.ConsumerLedgerList
	for _, list := range []client.ObjectList{&maps, &claims, &buckets, &ledgers} {
		if err := api.List(t.Context(), list); err != nil {
			return 0, err
		}
	}
	unpaid := map[types.UID]bool{}
	for _, m := range maps.Items {
		if strings.HasPrefix(m.Name, "map-") {
			unpaid[m.UID] = true
		}
	}
	objects := int64(len(unpaid))
	for _, claim := range claims.Items {
		uid := types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID])
		if !unpaid[uid] {
			return 0, fmt.Errorf("claim %s is the second of its object, or its object does not exist", claim.Name)
		}
		delete(unpaid, uid)
		if !apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted) {
			return 0, fmt.Errorf("claim %s is not granted: %+v", claim.Name, claim.Status)
		}
	}
	if len(unpaid) > 0 {
		return 0, fmt.Errorf("%d objects have no claim", len(unpaid))
	}
	if len(ledgers.Items) != 1 || len(buckets.Items) != 1 {
		return 0, fmt.Errorf("%d ledgers and %d buckets exist, want one of each", len(ledgers.Items), len(buckets.Items))
	}
	ledger, bucket := ledgers.Items[0].Spec, buckets.Items[0].Status
	if len(ledger.Reservations)+len(ledger.Released) > 0 {
		return 0, fmt.Errorf("%d reservations and %d releases are in flight", len(ledger.Reservations), len(ledger.Released))
	}
	var used int64
	for _, row := range ledger.Used {
		used += row.Amount
	}
	if used != objects || bucket.Allocated != objects || int64(bucket.ClaimCount) != objects {
		return 0, fmt.Errorf("%d objects exist; the ledger says %d are used, the bucket %d by %d claims", objects, used, bucket.Allocated, bucket.ClaimCount)
	}
	return objects, nil
}
