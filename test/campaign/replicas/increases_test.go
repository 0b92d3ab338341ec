package replicas

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// TestIncreasesAcrossReplicas raises the quotas of many namespaces, one increase after the other, while it kills the
// leader and starts others. Meanwhile no quota falls or goes, and in the end each agrees with its increases. In the
// namespaces in maximum mode only the highest increase is left.
func TestIncreasesAcrossReplicas(t *testing.T) {
	t.Parallel()
	const namespaces, increases, base = 8, 12, 10
	modes := []openmcpv1alpha1.QuotaMode{openmcpv1alpha1.ModeCumulative, openmcpv1alpha1.ModeMaximum}
	c := newCluster(t, 2)
	hard := func(amount int64) corev1.ResourceList {
		return corev1.ResourceList{secrets: *resource.NewQuantity(amount, resource.DecimalSI)}
	}
	// create repeats itself until it succeeds: while replicas die, some reviews have no answer.
	create := func(object client.Object) {
		t.Helper()
		c.eventually(func() error {
			if err := c.Create(t.Context(), object); !apierrors.IsAlreadyExists(err) {
				return err
			}
			return nil
		})
	}
	config := &openmcpv1alpha1.QuotaServiceConfig{ObjectMeta: metav1.ObjectMeta{Name: "platform"}}
	for _, mode := range modes {
		config.Spec.Quotas = append(config.Spec.Quotas, openmcpv1alpha1.QuotaDefinition{
			Name: string(mode), Mode: mode, DeleteIneffectiveQuotas: true,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"mode": string(mode)}},
			Template: openmcpv1alpha1.QuotaTemplate{Spec: corev1.ResourceQuotaSpec{Hard: hard(base)}},
		})
	}
	create(config)
	modeOf := func(n int) openmcpv1alpha1.QuotaMode { return modes[n%len(modes)] }
	for n := range namespaces {
		create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: project(n), Labels: map[string]string{"mode": string(modeOf(n))}}})
	}

	var made atomic.Int64
	var raising, watching sync.WaitGroup
	for n := range namespaces {
		raising.Go(func() {
			for i := range increases {
				create(&openmcpv1alpha1.QuotaIncrease{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("increase-%02d", i), Namespace: project(n)},
					Spec:       openmcpv1alpha1.QuotaIncreaseSpec{Hard: hard(base + int64(i))},
				})
				made.Add(1)
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	watching.Go(func() { c.watchRising(ctx) })
	leader := c.leader()
	c.eventually(func() error {
		if got := made.Load(); got < namespaces*increases/3 {
			return fmt.Errorf("%d increases are made", got)
		}
		return nil
	})
	leader.Signal(syscall.SIGKILL)
	<-leader.Ended()
	c.start().WaitReady(t)
	raising.Wait()

	want := map[openmcpv1alpha1.QuotaMode]int64{openmcpv1alpha1.ModeCumulative: base, openmcpv1alpha1.ModeMaximum: base + increases - 1}
	left := map[openmcpv1alpha1.QuotaMode]int{openmcpv1alpha1.ModeCumulative: increases, openmcpv1alpha1.ModeMaximum: 1}
	for i := range increases {
		want[openmcpv1alpha1.ModeCumulative] += base + int64(i)
	}
	for n := range namespaces {
		c.eventually(func() error {
			var quotas corev1.ResourceQuotaList
			var increases openmcpv1alpha1.QuotaIncreaseList
			for _, list := range []client.ObjectList{&quotas, &increases} {
				if err := c.List(t.Context(), list, client.InNamespace(project(n))); err != nil {
					return err
				}
			}
			if len(quotas.Items) != 1 || len(increases.Items) != left[modeOf(n)] {
				return fmt.Errorf("namespace %s has %d ResourceQuotas and %d increases, want 1 and %d", project(n), len(quotas.Items), len(increases.Items), left[modeOf(n)])
			}
			if got := quotas.Items[0].Spec.Hard[secrets]; got.Value() != want[modeOf(n)] {
				return fmt.Errorf("namespace %s has %s, want %d", project(n), got.String(), want[modeOf(n)])
			}
			for _, each := range increases.Items {
				if each.Annotations[openmcpv1alpha1.AnnotationEffect] == "" || len(each.Status.Conditions) == 0 || each.Status.Conditions[0].Reason != openmcpv1alpha1.ReasonInEffect {
					return fmt.Errorf("increase %s says %v and %+v", each.Name, each.Annotations, each.Status)
				}
			}
			return nil
		})
	}
	stop()
	watching.Wait()
}

// watchRising fails the test if a ResourceQuota gives less than before or goes, until ctx ends.
func (c *cluster) watchRising(ctx context.Context) {
	most := map[string]resource.Quantity{}
	for ctx.Err() == nil {
		var quotas corev1.ResourceQuotaList
		if err := c.List(ctx, &quotas); err != nil {
			continue // the test has ended
		}
		now := map[string]resource.Quantity{}
		for i := range quotas.Items {
			now[quotas.Items[i].Namespace] = quotas.Items[i].Spec.Hard[secrets]
		}
		for namespace, before := range most {
			if amount, exists := now[namespace]; !exists || amount.Cmp(before) < 0 {
				c.Errorf("namespace %s had %s, and then %s (%t)", namespace, before.String(), amount.String(), exists)
			}
		}
		most = now
	}
}
