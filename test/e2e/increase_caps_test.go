package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const capReached = openmcpv1alpha1.ReasonCapReached

// cap caps the ResourceQuotas of the world's namespaces, and waits until Bursar enforces the cap.
func (w *increased) cap(hard ...string) *quotav1alpha1.ResourceQuotaAllocation {
	w.Helper()
	allocation := &quotav1alpha1.ResourceQuotaAllocation{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: quotav1alpha1.ResourceQuotaAllocationSpec{
		Selector: metav1.LabelSelector{MatchLabels: w.labels()}, Allocation: corev1.ResourceQuotaSpec{Hard: list(hard...)},
	}}
	w.create(allocation)
	w.waitEnforced(allocation)
	return allocation
}

func (w *increased) waitEnforced(allocation *quotav1alpha1.ResourceQuotaAllocation) {
	w.Helper()
	eventually(w, func() error {
		if err := admin.Get(w.Context(), client.ObjectKeyFromObject(allocation), allocation); err != nil {
			return err
		}
		ready := apimeta.FindStatusCondition(allocation.Status.Conditions, quotav1alpha1.ConditionReady)
		if ready == nil || ready.Status != yes || ready.ObservedGeneration != allocation.Generation {
			return fmt.Errorf("the allocation is not enforced: %+v", ready)
		}
		return nil
	})
}

func (w *increased) setCap(allocation *quotav1alpha1.ResourceQuotaAllocation, hard ...string) {
	w.Helper()
	change(w, allocation, func(a *quotav1alpha1.ResourceQuotaAllocation) { a.Spec.Allocation.Hard = list(hard...) })
}

// An increase counts in the definition's limit under either name of the resource, and a cap under the other name holds
// it back.
func TestIncreaseUnderTheOtherName(t *testing.T) {
	w := newIncreased(t)
	w.cap("secrets=60")
	w.config(w.definition(base, cumulative, "count/secrets=10"))
	w.wantQuota(base, "count/secrets=10")
	w.increase("a", "secrets=50")
	w.wantQuota(base, "count/secrets=60")
	w.wantEffect("a", cumulative, "count/secrets: 50", yes, inEffect)
	w.increase("b", "secrets=1")
	w.wantEffect("b", cumulative, "", no, capReached, "held back by a cap: exceeded ResourceQuotaAllocation: "+w.name)
	w.wantQuota(base, "count/secrets=60")
}

// In cumulative mode, a cap holds back the part of the newest increase beyond it. The rest of the increase counts, and
// all of it once there is room.
func TestCapInCumulativeMode(t *testing.T) {
	w := newIncreased(t)
	allocation := w.cap("count/secrets=100")
	w.config(w.definition(base, cumulative, "count/secrets=10"))
	w.wantQuota(base, "count/secrets=10")
	w.increase("a", "count/secrets=50")
	w.wantQuota(base, "count/secrets=60")
	w.increase("b", "count/secrets=60", "count/configmaps=5")
	quota := w.wantQuota(base, "count/secrets=60", "count/configmaps=5")
	w.wantEffect("a", cumulative, "count/secrets: 50", yes, inEffect)
	w.wantEffect("b", cumulative, "count/configmaps: 5", yes, capReached, "ResourceQuota base has count/configmaps: 5 of it; the rest is held back by a cap: exceeded ResourceQuotaAllocation: testcapincumulativemode, requested: count/secrets=120")
	w.wantContains("the composition", quota.Annotations[openmcpv1alpha1.AnnotationComposition],
		"count/configmaps: 5 = b 5; count/secrets: 60 = base 10 + a 50 (held back by a cap: b 60)")
	w.wantEvent("ResourceQuota", base, "QuotaHeldBack", "count/secrets: 60 = base 10 + a 50 (held back by a cap: b 60)")
	w.increase("c", "count/secrets=70")
	w.wantEffect("c", cumulative, "", no, capReached, "held back by a cap: exceeded ResourceQuotaAllocation: testcapincumulativemode, requested: count/secrets=")

	w.setCap(allocation, "count/secrets=120")
	w.wantQuota(base, "count/secrets=120", "count/configmaps=5")
	w.wantEffect("b", cumulative, "count/configmaps: 5, count/secrets: 60", yes, inEffect)
	w.wantEffect("c", cumulative, "", no, capReached)
	must(w, admin.Delete(t.Context(), allocation))
	w.wantQuota(base, "count/secrets=190", "count/configmaps=5")
	w.wantEffect("c", cumulative, "count/secrets: 70", yes, inEffect)
}

// A cap ends with its allocation, however long the garbage collector takes for the projection.
func TestCapEndsWithItsAllocation(t *testing.T) {
	w := newIncreased(t)
	allocation := w.cap("count/secrets=10")
	w.config(w.definition(base, cumulative, "count/secrets=10"))
	w.increase("a", "count/secrets=5")
	w.wantEffect("a", cumulative, "", no, capReached)
	projection := &quotav1alpha1.LocalResourceQuotaAllocation{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: allocation.Name}}
	eventually(w, func() error { return admin.Get(t.Context(), client.ObjectKeyFromObject(projection), projection) })
	keep := func(finalizers ...string) {
		t.Helper()
		change(w, projection, func(p *quotav1alpha1.LocalResourceQuotaAllocation) { p.Finalizers = finalizers })
	}
	keep("test.example.com/keep")
	must(w, admin.Delete(t.Context(), allocation))
	w.wantQuota(base, "count/secrets=15")
	keep()
}

// Decreases apply under any cap, even while the cap holds back something else.
func TestWhatFallsFalls(t *testing.T) {
	w := newIncreased(t)
	config := w.config(w.definition(base, cumulative, "count/secrets=10", "count/configmaps=10"))
	first := w.increase("a", "count/secrets=50", "count/configmaps=50")
	w.wantQuota(base, "count/secrets=60", "count/configmaps=60")
	w.cap("count/secrets=40", "count/configmaps=60")
	w.increase("b", "count/secrets=5")
	w.wantEffect("b", cumulative, "", no, capReached)
	change(w, first, func(q *openmcpv1alpha1.QuotaIncrease) {
		q.Spec.Hard = list("count/secrets=45", "count/configmaps=20")
	})
	w.wantQuota(base, "count/secrets=60", "count/configmaps=30")
	w.wantEffect("b", cumulative, "count/secrets: 5", yes, inEffect)
	change(w, config, func(c *openmcpv1alpha1.QuotaServiceConfig) {
		c.Spec.Quotas[0].Template.Spec.Hard = list("count/secrets=1", "count/configmaps=1")
	})
	w.wantQuota(base, "count/secrets=51", "count/configmaps=21")
}

// In maximum mode, a cap holds back the highest amount, and the next highest counts. Bursar deletes neither.
func TestCapInMaximumMode(t *testing.T) {
	w := newIncreased(t)
	w.cap("count/secrets=60")
	w.config(w.deleting(maximum, "count/secrets=10"))
	w.wantQuota(base, "count/secrets=10")
	big := w.increase("big", "count/secrets=100")
	w.wantEffect("big", maximum, "", no, capReached)
	w.increase("medium", "count/secrets=50")
	w.wantQuota(base, "count/secrets=50")
	w.wantEffect("medium", maximum, "count/secrets: 50", yes, inEffect)
	w.increase("small", "count/secrets=5")
	w.wantNoIncrease("small")
	w.wantEffect("big", maximum, "", no, capReached, "requested: count/secrets=100")
	change(w, big, func(q *openmcpv1alpha1.QuotaIncrease) { q.Spec.Hard = list("count/secrets=60") })
	w.wantQuota(base, "count/secrets=60")
	w.wantNoIncrease("medium")
}

// In singular mode, a cap holds back the namespace's chosen increase.
func TestCapInSingularMode(t *testing.T) {
	w := newIncreased(t)
	w.cap("count/secrets=60")
	w.config(w.deleting(singular, "count/secrets=10"))
	w.use("big")
	w.increase("big", "count/secrets=100", "count/configmaps=3")
	w.wantQuota(base, "count/secrets=10", "count/configmaps=3")
	w.wantEffect("big", singular, "[active] count/configmaps: 3", yes, capReached, "the rest is held back by a cap: exceeded ResourceQuotaAllocation: testcapinsingularmode")
}

// The namespaces of a cap share it, and none learns the share of another. A decrease in one makes room in another.
func TestCapIsShared(t *testing.T) {
	w := newIncreased(t)
	w.cap("count/secrets=100")
	other := *w
	other.name = w.name + "-neighbour"
	w.create(w.newNamespace(other.name))
	config := w.config(w.definition(base, cumulative, "count/secrets=10"))
	w.wantDefinitions(config, "base 2 InForce")
	theirs := other.increase("more", "count/secrets=70")
	other.wantQuota(base, "count/secrets=80")
	w.increase("mine", "count/secrets=50")
	message := w.wantEffect("mine", cumulative, "", no, capReached)
	if strings.Contains(message, other.name) {
		t.Errorf("the message tells of another namespace: %s", message)
	}
	w.wantQuota(base, "count/secrets=10")
	must(w, admin.Delete(t.Context(), theirs))
	w.wantQuota(base, "count/secrets=60")
	w.wantEffect("mine", cumulative, "count/secrets: 50", yes, inEffect)
}

// If a cap does not allow the base, Bursar deletes no increase for being smaller than the base.
func TestCapOnBaseDeletesNothing(t *testing.T) {
	w := newIncreased(t)
	w.cap("count/secrets=7")
	w.config(w.deleting(maximum, "count/secrets=10"))
	w.wantQuota(base, "count/secrets=0")
	w.increase("small", "count/secrets=5")
	w.wantEffect("small", maximum, "", no, capReached, "held back by a cap: exceeded ResourceQuotaAllocation: testcaponbasedeletesnothing, requested: count/secrets=10")
	w.wantQuota(base, "count/secrets=0")
}

// A cap below the base leaves an amount of zero, rather than no limit, and the configuration reports it.
func TestCapOnBase(t *testing.T) {
	w := newIncreased(t)
	allocation := w.cap("count/secrets=5")
	config := w.config(w.definition(base, cumulative, "count/secrets=10", "count/configmaps=1"))
	w.wantQuota(base, "count/secrets=0", "count/configmaps=1")
	w.wantCondition(config, openmcpv1alpha1.ConditionReady, no, openmcpv1alpha1.ReasonBaseCapped, "definition base: ResourceQuota testcaponbase/base has less than the definition says: count/secrets: 0 instead of 10: exceeded ResourceQuotaAllocation: testcaponbase")
	w.wantEvent("ResourceQuota", base, "QuotaHeldBack", "count/secrets: 0 as a cap allows no more (held back by a cap: base 10)")
	w.increase("more", "count/secrets=1")
	w.wantEffect("more", cumulative, "", no, capReached)
	w.setCap(allocation, "count/secrets=10")
	w.wantQuota(base, "count/secrets=10", "count/configmaps=1")
	w.wantCondition(config, openmcpv1alpha1.ConditionReady, yes, openmcpv1alpha1.ReasonInForce)
	w.wantEffect("more", cumulative, "", no, capReached)
	change(w, config, func(c *openmcpv1alpha1.QuotaServiceConfig) {
		c.Spec.Quotas[0].Template.Spec.Hard = list("count/secrets=50")
	})
	w.wantCondition(config, openmcpv1alpha1.ConditionReady, no, openmcpv1alpha1.ReasonBaseCapped)
	w.wantQuota(base, "count/secrets=10")
}
