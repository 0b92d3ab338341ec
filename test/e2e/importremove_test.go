package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/importer"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/await"
)

// TestImportLeavesNothing imports a ResourceQuota that also limits kinds without objects on a standalone server. After
// the removal, nothing is left of its consumer.
func TestImportLeavesNothing(t *testing.T) {
	t.Parallel()
	options := standalone.Options{}
	options.DepartedInterval.Duration = 50 * time.Millisecond
	m := &migrated{T: t, Server: start(t, options)}
	m.options = importer.Options{Config: m.Config, From: "resourcequota", SystemNamespace: config.DefaultSystemNamespace}
	m.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}, m.secret("team-a", "one"),
		m.quota("team-a", "compute", "count/secrets=5", "pods=3", "requests.cpu=2", "services=2", "persistentvolumeclaims=1", "replicationcontrollers=1"))
	m.run(m.options)
	m.waitAdopted("resourcequota", quotav1alpha1.EnforcementModeAudit)
	if policies := imported(t, m.Server, "resourcequota"); len(policies) != 1 || policies[0].Spec.Trigger.Resource.Kind != "Secret" {
		t.Errorf("the import wrote these policies: %+v", policies)
	}
	eventually(t, func() error {
		if found := m.claims("resourcequota"); len(found) != 1 {
			return fmt.Errorf("the claims are %v", found)
		}
		return nil
	})

	_, err := importer.Remove(t.Context(), m.options)
	must(t, err)
	await.NoError(t, untilDeparted, func() error {
		var ledgers quotav1alpha1.ConsumerLedgerList
		var shown quotav1alpha1.EffectiveResourceGrantList
		var buckets quotav1alpha1.AllowanceBucketList
		must(t, m.Admin.List(t.Context(), &ledgers))
		must(t, m.Admin.List(t.Context(), &shown))
		must(t, m.Admin.List(t.Context(), &buckets))
		if left := len(ledgers.Items) + len(shown.Items) + len(buckets.Items); left > 0 {
			return fmt.Errorf("left are %d ledgers, %d effective grants and %d buckets", len(ledgers.Items), len(shown.Items), len(buckets.Items))
		}
		return nil
	})
}
