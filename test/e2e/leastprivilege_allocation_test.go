package e2e

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// allocate raises the ResourceQuota of a project within a cap, and expects a denial beyond it. The project's view of
// the cap follows, and goes once the allocation no longer selects the project.
func (s *scene) allocate() {
	const name corev1.ResourceName = "count/secrets"
	amount := func(n int64) corev1.ResourceList {
		return corev1.ResourceList{name: *resource.NewQuantity(n, resource.DecimalSI)}
	}
	labels := map[string]string{"capped": "true"}
	project := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "project", Labels: labels}}
	allocation := &quotav1alpha1.ResourceQuotaAllocation{ObjectMeta: metav1.ObjectMeta{Name: "cap"}, Spec: quotav1alpha1.ResourceQuotaAllocationSpec{
		Selector: metav1.LabelSelector{MatchLabels: labels}, Allocation: corev1.ResourceQuotaSpec{Hard: amount(10)},
	}}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: project.Name}, Spec: corev1.ResourceQuotaSpec{Hard: amount(4)}}
	give := func(n int64) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			err := s.Get(s.Context(), client.ObjectKeyFromObject(quota), quota)
			quota.Spec.Hard = amount(n)
			return errors.Join(err, s.Update(s.Context(), quota))
		})
	}
	projection := &quotav1alpha1.LocalResourceQuotaAllocation{ObjectMeta: metav1.ObjectMeta{Name: allocation.Name, Namespace: project.Name}}
	wantShown := func(n int64) {
		s.Helper()
		eventually(s, func() error {
			if err := s.Get(s.Context(), client.ObjectKeyFromObject(projection), projection); err != nil {
				return err
			}
			if got := projection.Status.Used[name]; got.Value() != n {
				return fmt.Errorf("the project sees that it takes %s, want %d", got.String(), n)
			}
			return nil
		})
	}
	s.create(project, allocation)
	eventually(s, func() error {
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(allocation), allocation); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(allocation.Status.Conditions, quotav1alpha1.ConditionReady) {
			return fmt.Errorf("the allocation is not enforced: %+v", allocation.Status.Conditions)
		}
		return nil
	})
	s.create(quota)
	wantShown(4)
	must(s, give(10))
	wantShown(10)
	if err := give(11); !apierrors.IsForbidden(err) {
		s.Fatalf("got %v, want it to be refused by the allocation", err)
	}
	must(s, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		err := s.Get(s.Context(), client.ObjectKeyFromObject(project), project)
		delete(project.Labels, "capped")
		return errors.Join(err, s.Update(s.Context(), project))
	}))
	eventually(s, func() error {
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(projection), projection); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the project sees the allocation still, or %w", err)
		}
		return nil
	})
	must(s, give(11))
	must(s, errors.Join(s.Delete(s.Context(), quota), s.Delete(s.Context(), allocation)))
}
