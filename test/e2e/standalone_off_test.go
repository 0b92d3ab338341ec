package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/platform"
)

// Without allocations and increases, the API server does not have their kinds, no webhook is for them, and everything
// else works.
func TestAllocationsAndIncreasesAreOff(t *testing.T) {
	t.Parallel()
	off := config.ResourceQuotas{Allocations: new(false), Increases: new(false)}
	s := start(t, standalone.Options{Quota: config.Quota{ResourceQuotas: off}})
	api, err := kubernetes.NewForConfig(s.Config)
	must(t, err)

	if _, err := api.Discovery().ServerResourcesForGroupVersion(openmcpv1alpha1.GroupVersion.String()); !apierrors.IsNotFound(err) {
		t.Errorf("the kinds of openMCP: got %v, want them not to be found", err)
	}
	served, err := api.Discovery().ServerResourcesForGroupVersion(quotav1alpha1.GroupVersion.String())
	must(t, err)
	for _, resource := range served.APIResources {
		if strings.Contains(resource.Name, "allocation") {
			t.Errorf("the API server serves %s", resource.Name)
		}
	}

	must(t, platform.Install(t.Context(), s.Admin))
	configuration, err := api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "bursar", metav1.GetOptions{})
	must(t, err)
	for _, webhook := range configuration.Webhooks {
		for _, rule := range webhook.Rules {
			for _, resource := range rule.Resources {
				if strings.Contains(resource, "allocation") || strings.Contains(resource, "resourcequotas") || rule.APIGroups[0] == openmcpv1alpha1.GroupName {
					t.Errorf("webhook %s is for %s of %q", webhook.Name, resource, rule.APIGroups[0])
				}
			}
		}
	}
	must(t, s.Admin.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "own"}, Spec: corev1.ResourceQuotaSpec{Hard: list("count/secrets=5")},
	}))
}
