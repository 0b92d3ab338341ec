package kubernetes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// testIncrease gives the namespace a ResourceQuota by a definition, and raises it. Kubernetes allows as much as
// the two make up.
func testIncrease(n *team) {
	n.grant(map[string]int64{pods: 100, memory: 1000 * mebibyte})
	n.create(&openmcpv1alpha1.QuotaServiceConfig{ObjectMeta: metav1.ObjectMeta{Name: n.name}, Spec: openmcpv1alpha1.QuotaServiceConfigSpec{
		Quotas: []openmcpv1alpha1.QuotaDefinition{{
			Name: "native", Mode: openmcpv1alpha1.ModeCumulative, Template: openmcpv1alpha1.QuotaTemplate{Spec: corev1.ResourceQuotaSpec{Hard: hard(1, 0)}},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: n.name}},
		}},
	}})
	n.eventually(func() error {
		// From then on the API server knows of the ResourceQuota, and counts new objects.
		if err := n.Create(n.Context(), n.pod("a", 1), client.DryRunAll); !isRefusedByQuota(err) {
			return fmt.Errorf("got %v, want a Pod to be refused by the ResourceQuota", err)
		}
		return nil
	})
	n.createSoon(n.configMap("a"))
	n.wantRefused(n.Create(n.Context(), n.configMap("b")), "exceeded quota: native, requested: configmaps=1, used: configmaps=1, limited: configmaps=1")

	n.create(&openmcpv1alpha1.QuotaIncrease{ObjectMeta: metav1.ObjectMeta{Name: "more", Namespace: n.name}, Spec: openmcpv1alpha1.QuotaIncreaseSpec{Hard: hard(1, 2)}})
	n.createSoon(n.configMap("b"))
	n.wantRefused(n.Create(n.Context(), n.configMap("c")), "exceeded quota: native, requested: configmaps=1, used: configmaps=2, limited: configmaps=2")
	n.createSoon(n.pod("a", 1))
	n.create(n.pod("b", 1))
	n.wantRefused(n.Create(n.Context(), n.pod("c", 1)), "exceeded quota: native, requested: pods=1, used: pods=2, limited: pods=2")
	n.wantQuotaUsed(2)
}

func hard(configMaps, pods int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceConfigMaps: *resource.NewQuantity(configMaps, resource.DecimalSI),
		corev1.ResourcePods:       *resource.NewQuantity(pods, resource.DecimalSI),
	}
}

func (n *team) configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: n.name}}
}
