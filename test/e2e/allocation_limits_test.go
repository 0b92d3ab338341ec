package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/test/await"
)

// TestQuotaLimits proves that an owner's ResourceQuota is the project's limit. The API server refuses objects beyond
// it, and the controller counts deletions.
func TestQuotaLimits(t *testing.T) {
	w := newTeam(t, "web")
	w.allocation("", "count/configmaps=10", "count/resourcegrants.quota.miloapis.com=5")
	w.mustGive("web", "default", "count/configmaps=2", "configmaps=3", "count/resourcegrants.quota.miloapis.com=1")
	quota := w.newQuota("web", "default")
	await.NoError(t, 3*soon, func() error { // the controller counts kinds of CRDs from the next resync on
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		if len(quota.Status.Used) != 3 {
			return fmt.Errorf("it counts %v", quota.Status.Used)
		}
		return nil
	})
	configMap := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.in("web"), Name: name}}
	}
	must(w, admin.Create(t.Context(), configMap("a")))
	must(w, admin.Create(t.Context(), configMap("b")))
	err := admin.Create(t.Context(), configMap("c"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: default, requested: count/configmaps=1, used: count/configmaps=2, limited: count/configmaps=2") {
		t.Fatalf("got %v, want the ResourceQuota to refuse it", err)
	}
	must(w, admin.Delete(t.Context(), configMap("a")))
	eventually(t, func() error { return admin.Create(t.Context(), configMap("c")) })

	// Raised within the cap, it lets more pass.
	w.mustGive("web", "default", "count/configmaps=3")
	eventually(t, func() error { return admin.Create(t.Context(), configMap("d")) })
}
