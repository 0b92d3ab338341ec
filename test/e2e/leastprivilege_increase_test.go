package e2e

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// increase has Bursar make a ResourceQuota, raise it by an increase, remove it, and delete an increase without effect.
func (s *scene) increase() {
	amount := func(n int64) corev1.ResourceList {
		return corev1.ResourceList{"count/secrets": *resource.NewQuantity(n, resource.DecimalSI)}
	}
	config := &openmcpv1alpha1.QuotaServiceConfig{ObjectMeta: metav1.ObjectMeta{Name: "quotas"}, Spec: openmcpv1alpha1.QuotaServiceConfigSpec{
		Quotas: []openmcpv1alpha1.QuotaDefinition{{
			Name: "base", Mode: openmcpv1alpha1.ModeMaximum, Template: openmcpv1alpha1.QuotaTemplate{Spec: corev1.ResourceQuotaSpec{Hard: amount(10)}},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: tenantNamespace}}, DeleteIneffectiveQuotas: true,
		}},
	}}
	increase := func(name string, n int64) *openmcpv1alpha1.QuotaIncrease {
		return &openmcpv1alpha1.QuotaIncrease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: tenantNamespace}, Spec: openmcpv1alpha1.QuotaIncreaseSpec{Hard: amount(n)}}
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "base", Namespace: tenantNamespace}}
	wantQuota := func(n int64) {
		s.Helper()
		eventually(s, func() error {
			if err := s.Get(s.Context(), client.ObjectKeyFromObject(quota), quota); err != nil {
				return err
			}
			if got := quota.Spec.Hard["count/secrets"]; got.Value() != n {
				return fmt.Errorf("the ResourceQuota gives %s, want %d", got.String(), n)
			}
			return nil
		})
	}
	wantGone := func(object client.Object) {
		s.Helper()
		eventually(s, func() error {
			if err := s.Get(s.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T %s is there, or %w", object, object.GetName(), err)
			}
			return nil
		})
	}
	s.create(config)
	wantQuota(10)
	s.create(increase("big", 100), increase("small", 1))
	wantQuota(100)
	wantGone(increase("small", 1))
	must(s, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		err := s.Get(s.Context(), client.ObjectKeyFromObject(quota), quota)
		quota.Spec.Hard = amount(1000)
		return errors.Join(err, s.Update(s.Context(), quota))
	}))
	wantQuota(100)
	must(s, s.Delete(s.Context(), config))
	wantGone(quota)
	must(s, s.Delete(s.Context(), increase("big", 100)))
}
