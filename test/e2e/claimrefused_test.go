package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// On a cluster, a ResourceQuota may refuse the claims of a namespace. Bursar then keeps them in the system namespace,
// and their consumer goes on.
func TestNamespaceRefusesClaims(t *testing.T) {
	t.Parallel()
	reached, err := server.Connect(startPlane(t).AdminKubeconfigPath())
	must(t, err)
	api, err := reached.As(somebody)
	must(t, err)
	defer runOperator(t, reached.Config)()
	platform.DeclareMaps(t, api, 3)
	platform.ProtectMaps(t, api, "ConfigMap")

	namespace := metav1.NamespaceDefault
	count := corev1.ResourceList{"count/resourceclaims.quota.miloapis.com": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "no-claims"}, Spec: corev1.ResourceQuotaSpec{Hard: count}}
	must(t, api.Create(t.Context(), quota))
	// tryClaim asks whether the namespace accepts claims. Admission learns of ResourceQuotas by a watch of its own.
	tryClaim := func() error {
		return api.Create(t.Context(), &quotav1alpha1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "tried", Namespace: namespace},
			Spec: quotav1alpha1.ResourceClaimSpec{
				ConsumerRef: platform.Consumer("acme"), ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: "tried", Namespace: namespace},
				Requests: []quotav1alpha1.ResourceRequest{{ResourceType: platform.MapsType, Amount: 1}},
			},
		}, client.DryRunAll)
	}
	eventually(t, func() error {
		if err := tryClaim(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "quota: no-claims") {
			return fmt.Errorf("the ResourceQuota does not refuse claims yet: %v", err)
		}
		return nil
	})
	// wantGranted waits until a namespace has so many claims, all granted.
	wantGranted := func(namespace string, want int) {
		t.Helper()
		eventually(t, func() error {
			var claims quotav1alpha1.ResourceClaimList
			if err := api.List(t.Context(), &claims, client.InNamespace(namespace)); err != nil {
				return err
			}
			for _, claim := range claims.Items {
				if !apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted) {
					return fmt.Errorf("claim %s is not granted: %+v", claim.Name, claim.Status.Conditions)
				}
			}
			if len(claims.Items) != want {
				return fmt.Errorf("namespace %s has %d claims, want %d", namespace, len(claims.Items), want)
			}
			return nil
		})
	}

	for i := range 3 {
		must(t, api.Create(t.Context(), platform.Map(i)))
	}
	if err := api.Create(t.Context(), platform.Map(3)); !platform.IsExceeded(err) {
		t.Errorf("the fourth of 3 maps: got %v, want a denial", err)
	}
	wantGranted(systemNamespace, 3)
	eventually(t, func() error {
		var events eventsv1.EventList
		if err := api.List(t.Context(), &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Reason == "ClaimsRefused" && event.Regarding.Kind == "ConfigMap" && strings.Contains(event.Note, "quota: no-claims") {
				return nil
			}
		}
		return fmt.Errorf("no event says that claims are refused: %+v", events.Items)
	})

	must(t, api.Delete(t.Context(), platform.Map(0)))
	wantGranted(systemNamespace, 2)
	must(t, api.Delete(t.Context(), quota))
	eventually(t, tryClaim)
	eventually(t, func() error { return api.Create(t.Context(), platform.Map(4)) })
	wantGranted(namespace, 1) // in the map's own namespace again
}
