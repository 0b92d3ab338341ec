package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	secrets    corev1.ResourceName = "count/secrets"
	configMaps corev1.ResourceName = "count/configmaps"
)

// team is somebody with projects of their own.
type team struct {
	*testing.T
	name string
}

// newTeam makes a team with a project of each name.
func newTeam(t *testing.T, projects ...string) *team {
	t.Helper()
	t.Parallel()
	w := &team{T: t, name: nameOf(t)}
	for _, project := range projects {
		w.project(project)
	}
	return w
}

func (w *team) labels() map[string]string { return map[string]string{"team": w.name} }

// in is the namespace of a project.
func (w *team) in(project string) string { return w.name + "-" + project }

func (w *team) project(name string) *corev1.Namespace {
	w.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.in(name), Labels: w.labels()}}
	must(w, admin.Create(w.Context(), namespace))
	return namespace
}

// allocation caps the team's projects, and waits until Bursar enforces the cap.
func (w *team) allocation(suffix string, hard ...string) *quotav1alpha1.ResourceQuotaAllocation {
	w.Helper()
	a := w.newAllocation(suffix, hard...)
	must(w, admin.Create(w.Context(), a))
	w.waitCondition(a, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	return a
}

func (w *team) newAllocation(suffix string, hard ...string) *quotav1alpha1.ResourceQuotaAllocation {
	return &quotav1alpha1.ResourceQuotaAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: w.name + suffix},
		Spec: quotav1alpha1.ResourceQuotaAllocationSpec{
			Selector:   metav1.LabelSelector{MatchLabels: w.labels()},
			Allocation: corev1.ResourceQuotaSpec{Hard: list(hard...)},
		},
	}
}

func (w *team) waitCondition(a *quotav1alpha1.ResourceQuotaAllocation, kind string, status metav1.ConditionStatus) {
	w.Helper()
	eventually(w, func() error {
		if err := admin.Get(w.Context(), client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		condition := apimeta.FindStatusCondition(a.Status.Conditions, kind)
		if condition == nil || condition.Status != status || condition.ObservedGeneration != a.Generation {
			return fmt.Errorf("condition %s of %s (generation %d) is %v, want %s", kind, a.Name, a.Generation, condition, status)
		}
		return nil
	})
}

func (w *team) newQuota(project, name string, hard ...string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.in(project), Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: list(hard...)},
	}
}

// give creates or changes a ResourceQuota.
func (w *team) give(project, name string, hard ...string) error {
	return w.giveAs(admin, project, name, hard...)
}

func (w *team) giveAs(who client.Client, project, name string, hard ...string) error {
	quota := w.newQuota(project, name, hard...)
	// The controller of ResourceQuotas writes the usage into it as well.
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		err := admin.Get(w.Context(), client.ObjectKeyFromObject(quota), quota)
		if apierrors.IsNotFound(err) {
			return who.Create(w.Context(), quota)
		}
		if err != nil {
			return err
		}
		quota.Spec.Hard = list(hard...)
		return who.Update(w.Context(), quota)
	})
}

func (w *team) mustGive(project, name string, hard ...string) {
	w.Helper()
	must(w, w.give(project, name, hard...))
}

// wantRefused checks for a denial by the allocation for lack of a resource.
func (w *team) wantRefused(err error, allocation string, wants ...string) {
	w.Helper()
	if !apierrors.IsForbidden(err) || !regexp.MustCompile("exceeded ResourceQuotaAllocation: "+regexp.QuoteMeta(allocation)+`( \([^)]*\))?,`).MatchString(err.Error()) {
		w.Fatalf("got %v, want a refusal by allocation %s", err, allocation)
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			w.Errorf("%v does not say %q", err, want)
		}
	}
}

// waitUsed waits until an allocation's status shows so much in use.
func (w *team) waitUsed(allocation string, used ...string) {
	w.Helper()
	eventually(w, func() error { return w.checkUsed(w.Context(), allocation, used...) })
}

func (w *team) checkUsed(ctx context.Context, allocation string, used ...string) error {
	a := &quotav1alpha1.ResourceQuotaAllocation{}
	if err := admin.Get(ctx, client.ObjectKey{Name: allocation}, a); err != nil {
		return err
	}
	for name, want := range list(used...) {
		if got := a.Status.Allocated.Used[name]; got.Cmp(want) != 0 {
			return fmt.Errorf("allocation %s says that %s %s is taken, want %s (%v)", allocation, got.String(), name, want.String(), a.Status.UsedByProject)
		}
	}
	return nil
}
