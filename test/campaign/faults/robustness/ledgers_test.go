package robustness

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/kit"
)

// checkAcknowledged wants every acknowledged object to exist, and no more objects than allowed.
func checkAcknowledged(t *testing.T, api client.Client, acknowledged map[types.UID]string) {
	t.Helper()
	var objects corev1.ConfigMapList
	var claims quotav1alpha1.ResourceClaimList
	if err := errors.Join(api.List(t.Context(), &objects, client.InNamespace(space)), api.List(t.Context(), &claims)); err != nil {
		t.Fatal(err)
	}
	there := map[types.UID]bool{}
	for _, object := range objects.Items {
		there[object.UID] = true
	}
	for _, claim := range claims.Items {
		there[claim.UID] = apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	}
	for uid, name := range acknowledged {
		if !there[uid] {
			t.Errorf("%s was acknowledged and is gone", name)
		}
	}
	if len(objects.Items) > objectsMax {
		t.Errorf("%d objects exist, more than the limit of %d", len(objects.Items), objectsMax)
	}
}

// checkLedgers waits until objects, claims, ledgers and buckets agree.
func checkLedgers(t *testing.T, api client.Client) {
	t.Helper()
	eventually(t, func() error {
		var objects corev1.ConfigMapList
		if err := api.List(t.Context(), &objects, client.InNamespace(space)); err != nil {
			return err
		}
		a := kit.Agreement{Limits: kit.Charges{}, Objects: map[types.UID]kit.Charges{}, Direct: true}
		each := kit.Charges{}
		for consumer, limit := range limits {
			a.Limits[consumer], each[consumer] = kit.Amounts{resourceType: limit}, kit.Amounts{resourceType: 1}
		}
		for _, object := range objects.Items {
			a.Objects[object.UID] = each
		}
		return a.Check(t.Context(), api)
	})
}
