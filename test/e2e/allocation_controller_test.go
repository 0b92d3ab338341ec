package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestRelabelAndCutAreTold(t *testing.T) {
	w := newTeam(t, "web", "shop")
	stray := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.in("stray")}}
	must(w, admin.Create(t.Context(), stray))
	w.mustGive("stray", "default", "count/secrets=50")
	w.mustGive("web", "default", "count/secrets=80")
	a := w.allocation("", "count/secrets=100")
	w.waitUsed(w.name, "count/secrets=80")
	w.waitCondition(a, quotav1alpha1.ConditionExceeded, metav1.ConditionFalse)

	w.label(stray, w.labels())
	w.waitCondition(a, quotav1alpha1.ConditionExceeded, metav1.ConditionTrue)
	w.waitUsed(w.name, "count/secrets=130")
	w.waitEvent(a, quotav1alpha1.EventCapExceeded, "130 of 100 count/secrets")
	w.wantMetric("bursar_allocation_used", w.name, secrets, 130)
	w.wantMetric("bursar_allocation_hard", w.name, secrets, 100)
	w.wantRefused(w.give("shop", "default", "count/secrets=1"), w.name, "holds 0 and may have up to 0")
	w.mustGive("stray", "default", "count/secrets=49")

	w.label(stray, nil)
	w.waitCondition(a, quotav1alpha1.ConditionExceeded, metav1.ConditionFalse)
	w.waitEvent(a, quotav1alpha1.EventWithinCap, "within the cap")
	w.waitUsed(w.name, "count/secrets=80")

	// A cut holds once a condition is about it.
	w.change(a, func() { a.Spec.Allocation.Hard = list("count/secrets=70", "count/configmaps=1") })
	w.waitCondition(a, quotav1alpha1.ConditionExceeded, metav1.ConditionTrue)
	w.wantRefused(w.give("shop", "default", "count/secrets=1"), w.name, "limited: count/secrets=70")

	// Deletions give back quota: of a ResourceQuota, and of a namespace with everything in it.
	must(w, admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.in("web")}}))
	w.waitUsed(w.name, "count/secrets=0")
	w.mustGive("shop", "default", "count/secrets=70")
}

func TestDeletedQuotaGivesBackAtOnce(t *testing.T) {
	w := newTeam(t, "web", "shop")
	w.allocation("", "count/secrets=10")
	w.mustGive("web", "default", "count/secrets=10")
	w.waitUsed(w.name, "count/secrets=10")
	must(w, admin.Delete(t.Context(), w.newQuota("web", "default")))
	began := time.Now()
	eventually(t, func() error { return w.give("shop", "default", "count/secrets=10") })
	t.Logf("given back after %s", time.Since(began))
}

func TestProjection(t *testing.T) {
	w := newTeam(t, "web", "shop")
	a := w.allocation("", "count/secrets=100")
	w.mustGive("web", "default", "count/secrets=60")
	w.waitProjection("web", "100", "60", "60", "100")
	w.waitProjection("shop", "100", "60", "0", "40")

	// Nobody else writes it, and it comes back.
	local := w.projection("shop")
	local.Status.Available = list("count/secrets=1000")
	if err := admin.Update(t.Context(), local); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "made by Bursar") {
		t.Errorf("got %v, want it to be refused", err)
	}
	must(w, admin.Delete(t.Context(), local))
	w.waitProjection("shop", "100", "60", "0", "40")

	// It goes with the label, and with the allocation.
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.in("shop")}}
	w.label(shop, nil)
	w.waitNoProjection("shop")
	must(w, admin.Delete(t.Context(), a))
	w.waitNoProjection("web")
	w.waitNoLedger(a)
	w.mustGive("web", "default", "count/secrets=1000")
}

// Without a change, Bursar writes nothing.
func TestNoWriteWithoutChange(t *testing.T) {
	w := newTeam(t, "web")
	a := w.allocation("", "count/secrets=100")
	w.mustGive("web", "default", "count/secrets=60")
	w.waitUsed(w.name, "count/secrets=60")
	w.waitProjection("web", "100", "60", "60", "100")
	// The ledger counts the quota before the watch brings it. The condition follows the watch.
	w.waitCondition(a, quotav1alpha1.ConditionLimited, metav1.ConditionTrue)
	local := w.projection("web")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.in("web")}}
	labels := w.labels()
	labels["irrelevant"] = "label"
	w.label(namespace, labels)
	w.mustGive("web", "other", "count/secrets=50")
	must(w, admin.Delete(t.Context(), w.newQuota("web", "other")))
	// Bursar settles the next change after those.
	w.mustGive("web", "default", "count/secrets=61")
	w.waitUsed(w.name, "count/secrets=61")
	b := &quotav1alpha1.ResourceQuotaAllocation{}
	must(w, admin.Get(t.Context(), client.ObjectKeyFromObject(a), b))
	if diff := cmp.Diff(a.Status.Conditions, b.Status.Conditions); diff != "" {
		t.Errorf("the conditions are different (-before +after):\n%s", diff)
	}
	if local.UID != w.projection("web").UID {
		t.Error("the projection was made again")
	}
}

func TestBadAllocations(t *testing.T) {
	w := newTeam(t, "web")
	for name, tt := range map[string]struct {
		change func(*quotav1alpha1.ResourceQuotaAllocation)
		want   string
	}{
		"operator": {func(a *quotav1alpha1.ResourceQuotaAllocation) {
			a.Spec.Selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Is", Values: []string{"a"}}}}
		}, `spec.selector.matchExpressions[0].operator: Invalid value: "Is"`},
		"value": {func(a *quotav1alpha1.ResourceQuotaAllocation) { a.Spec.Selector.MatchLabels["team"] = "no value" }, "spec.selector.matchLabels"},
		"empty": {func(a *quotav1alpha1.ResourceQuotaAllocation) { a.Spec.Allocation.Hard = nil }, "spec.allocation.hard: Required value: name at least one resource"},
		"scopes": {func(a *quotav1alpha1.ResourceQuotaAllocation) {
			a.Spec.Allocation.Scopes = []corev1.ResourceQuotaScope{"BestEffort", "NotBestEffort"}
		}, "spec.allocation.scopes"},
		"negative": {func(a *quotav1alpha1.ResourceQuotaAllocation) { a.Spec.Allocation.Hard = list("count/secrets=-1") }, "spec.allocation.hard[count/secrets]"},
		"unknown":  {func(a *quotav1alpha1.ResourceQuotaAllocation) { a.Spec.Allocation.Hard = list("secretz=1") }, "must be a standard resource type"},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.newAllocation("-"+name, "count/secrets=1")
			tt.change(a)
			if err := admin.Create(t.Context(), a); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to be invalid because of %q", err, tt.want)
			}
		})
	}
	a := w.allocation("", "count/secrets=1")
	must(w, admin.Get(t.Context(), client.ObjectKeyFromObject(a), a))
	a.Status.Allocated.Used = list("count/secrets=0")
	a.Status.UsedByProject = nil
	if err := admin.Status().Update(t.Context(), a); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "written only by Bursar") {
		t.Errorf("got %v, want the status to be Bursar's", err)
	}
}

func (w *team) label(namespace *corev1.Namespace, labels map[string]string) {
	w.Helper()
	must(w, admin.Get(w.Context(), client.ObjectKeyFromObject(namespace), namespace))
	before := namespace.DeepCopy()
	delete(namespace.Labels, "team")
	for key, value := range labels {
		metav1.SetMetaDataLabel(&namespace.ObjectMeta, key, value)
	}
	must(w, admin.Patch(w.Context(), namespace, client.MergeFrom(before)))
}

// change updates an allocation, and retries while Bursar updates it as well.
func (w *team) change(a *quotav1alpha1.ResourceQuotaAllocation, change func()) {
	w.Helper()
	eventually(w, func() error {
		if err := admin.Get(w.Context(), client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		change()
		return admin.Update(w.Context(), a)
	})
}

func (w *team) waitEvent(a *quotav1alpha1.ResourceQuotaAllocation, reason, text string) {
	w.Helper()
	eventually(w, func() error {
		var events eventsv1.EventList
		if err := admin.List(w.Context(), &events, client.MatchingFields{"reason": reason}); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Name == a.Name && event.Reason == reason && strings.Contains(event.Note, text) {
				return nil
			}
		}
		return fmt.Errorf("there is no event %s on %s that says %q", reason, a.Name, text)
	})
}

func (w *team) wantMetric(name, allocation string, resource corev1.ResourceName, want float64) {
	w.Helper()
	eventually(w, func() error {
		families, err := metrics.Gather()
		if err != nil {
			return err
		}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				labels := map[string]string{}
				for _, label := range metric.GetLabel() {
					labels[label.GetName()] = label.GetValue()
				}
				if family.GetName() == name && labels["allocation"] == allocation && labels["resource"] == string(resource) && metric.GetGauge().GetValue() == want {
					return nil
				}
			}
		}
		return fmt.Errorf("no metric %s of %s and %s is %v", name, allocation, resource, want)
	})
}

func (w *team) projection(project string) *quotav1alpha1.LocalResourceQuotaAllocation {
	w.Helper()
	local := &quotav1alpha1.LocalResourceQuotaAllocation{}
	must(w, admin.Get(w.Context(), client.ObjectKey{Namespace: w.in(project), Name: w.name}, local))
	return local
}

// waitProjection waits until a project sees that much of count/secrets.
func (w *team) waitProjection(project, hard, used, usedHere, available string) {
	w.Helper()
	eventually(w, func() error {
		local := &quotav1alpha1.LocalResourceQuotaAllocation{}
		if err := admin.Get(w.Context(), client.ObjectKey{Namespace: w.in(project), Name: w.name}, local); err != nil {
			return err
		}
		got := []string{}
		for _, l := range []corev1.ResourceList{local.Status.Allocated.Hard, local.Status.Allocated.Used, local.Status.Used, local.Status.Available} {
			amount := l[secrets]
			got = append(got, amount.String())
		}
		if diff := cmp.Diff([]string{hard, used, usedHere, available}, got); diff != "" {
			return fmt.Errorf("hard, used, used here and available in %s (-want +got):\n%s", project, diff)
		}
		return nil
	})
}

// waitNoLedger waits until Bursar has removed the ledger of an allocation.
func (w *team) waitNoLedger(a *quotav1alpha1.ResourceQuotaAllocation) {
	w.Helper()
	eventually(w, func() error {
		err := admin.Get(w.Context(), client.ObjectKey{Name: string(a.UID)}, &quotav1alpha1.AllocationLedger{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the ledger of %s is there, or may be: %v", a.Name, err)
		}
		return nil
	})
}

func (w *team) waitNoProjection(project string) {
	w.Helper()
	eventually(w, func() error {
		err := admin.Get(w.Context(), client.ObjectKey{Namespace: w.in(project), Name: w.name}, &quotav1alpha1.LocalResourceQuotaAllocation{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the projection in %s is still there: %v", project, err)
		}
		return nil
	})
}
