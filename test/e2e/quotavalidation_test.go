package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"

	"github.com/bursar/bursar/internal/kube/quotavalidation"
)

func TestQuotaValidation(t *testing.T) {
	t.Parallel()
	client, err := kubernetes.NewForConfig(barePlane(t).plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	quotas := client.CoreV1().ResourceQuotas(metav1.NamespaceDefault)
	hard := func(name corev1.ResourceName, quantity string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(quantity)}
	}
	tests := map[string]struct {
		reason string
		spec   corev1.ResourceQuotaSpec
		want   string
	}{
		"Good":     {"nothing is wrong", corev1.ResourceQuotaSpec{Hard: hard("count/secrets", "10")}, ""},
		"Empty":    {"a quota may limit nothing", corev1.ResourceQuotaSpec{}, ""},
		"Extended": {"any kind can be counted", corev1.ResourceQuotaSpec{Hard: hard("count/widgets.example.com", "1")}, ""},
		"Negative": {"there is no less than nothing", corev1.ResourceQuotaSpec{Hard: hard("pods", "-1")},
			`spec.allocation.hard[pods]: Invalid value: "-1": must be greater than or equal to 0`},
		"Fraction": {"half a Pod is none", corev1.ResourceQuotaSpec{Hard: hard("pods", "500m")},
			`spec.allocation.hard[pods]: Invalid value: "500m": must be an integer`},
		"UnknownResource": {"nobody counts it", corev1.ResourceQuotaSpec{Hard: hard("secretz", "1")},
			`[spec.allocation.hard[secretz]: Invalid value: "secretz": must be a standard resource type`},
		"ScopesContradict": {"nothing is both", corev1.ResourceQuotaSpec{
			Hard: hard("pods", "1"), Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
		}, `spec.allocation.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes`},
		"ScopeOfOtherResources": {"a scope is for some resources only", corev1.ResourceQuotaSpec{
			Hard: hard("secrets", "1"), Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort},
		}, `spec.allocation.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource`},
		"UnknownScope": {"it would select nothing", corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{"Odd"}},
			`spec.allocation.scopes: Invalid value: ["Odd"]: unsupported scope`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			errs, err := quotavalidation.Checker{Quotas: quotas}.Check(t.Context(), field.NewPath("spec", "allocation"), &corev1.ResourceQuota{Spec: tt.spec})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(errs) > 0 {
				got = errs.ToAggregate().Error()
			}
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("%s: got\n%s\nwant\n%s", tt.reason, got, tt.want)
			}
		})
	}
	t.Run("NothingIsStored", func(t *testing.T) {
		list, err := quotas.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(0, len(list.Items)); diff != "" {
			t.Errorf("stored ResourceQuotas (-want +got):\n%s", diff)
		}
	})
	t.Run("CannotTell", func(t *testing.T) {
		_, err := quotavalidation.Checker{Quotas: client.CoreV1().ResourceQuotas("missing")}.Check(t.Context(), field.NewPath("spec"), &corev1.ResourceQuota{})
		if err == nil || !strings.Contains(err.Error(), `namespaces "missing" not found`) {
			t.Errorf("without the namespace it got %v, want an error that names it", err)
		}
	})
}
