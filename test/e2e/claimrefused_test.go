package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
)

// Where a ResourceQuota refuses the claims of a namespace, they are kept in the system namespace, and its consumer goes on.
func TestNamespaceRefusesClaims(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 3)
	count := corev1.ResourceList{"count/resourceclaims.quota.miloapis.com": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "no-claims"}, Spec: corev1.ResourceQuotaSpec{Hard: count}}
	w.mustCreate(quota)
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		if len(quota.Status.Hard) == 0 {
			return errors.New("the ResourceQuota is not counted yet")
		}
		return nil
	})

	for _, name := range []string{"a", "b", "c"} {
		w.mustCreate(w.configMap(name))
	}
	w.wantBucket(3, 3, 0, 3)
	w.wantExceeded(w.configMap("d"))
	for _, name := range []string{"a", "b", "c"} {
		claim := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: config.DefaultSystemNamespace, Name: w.name + "-" + name}}
		w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	}
	eventually(w, func() error {
		var events eventsv1.EventList
		if err := admin.List(w.ctx, &events, client.InNamespace(w.name)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Reason == "ClaimsRefused" && event.Regarding.Kind == "ConfigMap" && strings.Contains(event.Note, "quota: no-claims") {
				return nil
			}
		}
		return fmt.Errorf("no event says that claims are refused: %+v", events.Items)
	})

	w.mustDelete(w.configMap("a"))
	w.wantBucket(3, 2, 1, 2)
	w.mustDelete(quota)
	w.mustCreate(w.configMap("e"))
	w.claimOf("e") // in its own namespace again
}
