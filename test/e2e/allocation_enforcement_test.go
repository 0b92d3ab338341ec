package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestCapAcrossProjects(t *testing.T) {
	w := newTeam(t, "web", "shop")
	w.allocation("", "count/secrets=100", "count/configmaps=20")
	w.mustGive("web", "default", "count/secrets=60")
	w.mustGive("shop", "default", "count/secrets=40")
	w.wantRefused(w.give("shop", "default", "count/secrets=41"), w.name,
		"requested: count/secrets=41", "allocated: count/secrets=100", "limited: count/secrets=100",
		"namespace "+w.in("shop")+" holds 40 and may have up to 40", "held by "+w.in("web")+" 60, "+w.in("shop")+" 40")

	// A ResourceQuota may give the same as another ResourceQuota of the project without taking more of the cap.
	w.mustGive("web", "terminating", "count/secrets=55", "count/configmaps=20")
	w.wantRefused(w.give("shop", "default", "count/secrets=30", "count/configmaps=1"), w.name, "count/configmaps=1")
	w.mustGive("shop", "default", "count/secrets=30")
	w.waitUsed(w.name, "count/secrets=90", "count/configmaps=20") // until then, the ledger may have the earlier 40 secrets
	w.mustGive("web", "default", "count/secrets=70")
	w.waitUsed(w.name, "count/secrets=100", "count/configmaps=20")

	// Without the largest, the project takes the amount of the next one.
	must(w, admin.Delete(w.Context(), w.newQuota("web", "default")))
	w.waitUsed(w.name, "count/secrets=85", "count/configmaps=20")
	w.mustGive("shop", "default", "count/secrets=45")
}

// A cap counts a resource under either of its names, as Kubernetes does, and the condition Limited tells the truth.
func TestCapCountsBothNames(t *testing.T) {
	w := newTeam(t, "web", "shop")
	w.allocation("-a", "cpu=4", "requests.memory=4Gi", "secrets=5", "pods=4")
	for _, hard := range []string{"requests.cpu=6", "memory=600Gi", "count/secrets=600", "count/pods=600"} {
		w.wantRefused(w.give("web", "default", hard), w.name+"-a")
	}
	w.mustGive("web", "default", "requests.cpu=3", "memory=1Gi", "count/secrets=2", "count/pods=1")
	w.waitUsed(w.name+"-a", "cpu=3", "requests.memory=1Gi", "secrets=2", "pods=1")
	w.wantRefused(w.give("shop", "default", "cpu=2"), w.name+"-a", "requested: cpu=2", "allocated: cpu=3")
	w.mustGive("shop", "default", "cpu=1", "requests.memory=3Gi", "secrets=3", "pods=3")
	a := &quotav1alpha1.ResourceQuotaAllocation{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-a"}}
	w.waitCondition(a, quotav1alpha1.ConditionLimited, metav1.ConditionTrue)

	// The other name keeps the limit, so this takes nothing out of the cap.
	w.mustGive("web", "default", "cpu=3", "requests.memory=1Gi", "secrets=2", "pods=1")

	// The number of running Pods does not limit the number of all Pods.
	w.allocation("-b", "count/pods=10")
	b := &quotav1alpha1.ResourceQuotaAllocation{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-b"}}
	w.waitCondition(b, quotav1alpha1.ConditionLimited, metav1.ConditionFalse)
	w.waitUsed(w.name+"-b", "count/pods=0")
}

func TestWhatIsNotCappedIsFree(t *testing.T) {
	w := newTeam(t, "web")
	w.allocation("", "count/secrets=10")
	w.mustGive("web", "default", "count/configmaps=1000")
	w.waitUsed(w.name, "count/secrets=0")
}

func TestMostRestrictiveWins(t *testing.T) {
	w := newTeam(t, "web")
	w.allocation("-a", "count/secrets=100")
	w.allocation("-b", "count/secrets=50", "count/configmaps=5")
	err := w.give("web", "default", "count/secrets=60", "count/configmaps=6")
	w.wantRefused(err, w.name+"-b", "count/secrets=60", "count/configmaps=6")
	if strings.Contains(err.Error(), w.name+"-a") {
		t.Errorf("%v names the allocation that has room", err)
	}
	w.waitUsed(w.name+"-a", "count/secrets=0") // the allocation with room keeps nothing of it
	w.mustGive("web", "default", "count/secrets=50")
	w.waitUsed(w.name+"-a", "count/secrets=50")
	w.waitUsed(w.name+"-b", "count/secrets=50")
	w.wantRefused(w.give("web", "default", "count/secrets=101"), w.name+"-a", w.name+"-b")
}

func TestDryRunReservesNothing(t *testing.T) {
	w := newTeam(t, "web")
	w.allocation("", "count/secrets=10")
	must(w, admin.Create(w.Context(), w.newQuota("web", "default", "count/secrets=10"), client.DryRunAll))
	w.waitUsed(w.name, "count/secrets=0")
	w.wantRefused(admin.Create(w.Context(), w.newQuota("web", "default", "count/secrets=11"), client.DryRunAll), w.name)
}

func TestOnlyRaisesAreChecked(t *testing.T) {
	w := newTeam(t, "web", "shop")
	w.mustGive("web", "default", "count/secrets=80", "count/configmaps=80")
	w.mustGive("shop", "default", "count/secrets=80", "count/configmaps=10")
	a := w.allocation("", "count/secrets=100", "count/configmaps=100")
	w.waitCondition(a, "Exceeded", "True")
	w.mustGive("shop", "default", "count/secrets=70", "count/configmaps=10") // still far too much, and less
	w.mustGive("shop", "default", "count/secrets=70", "count/configmaps=20")
	w.waitUsed(w.name, "count/secrets=150", "count/configmaps=100") // until then, the ledger has the earlier 80 secrets
	w.wantRefused(w.give("shop", "default", "count/secrets=71", "count/configmaps=20"), w.name)
	w.wantRefused(w.give("shop", "default", "count/secrets=1", "count/configmaps=21"), w.name, "count/configmaps=21")
	w.mustGive("shop", "default") // names nothing, takes nothing
	w.waitUsed(w.name, "count/secrets=80", "count/configmaps=80")
	w.waitCondition(a, "Exceeded", "False")
}

func TestScopesOfAllocations(t *testing.T) {
	w := newTeam(t, "web")
	scoped := w.newAllocation("-terminating", "pods=10")
	scoped.Spec.Allocation.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
	must(w, admin.Create(t.Context(), scoped))
	w.waitCondition(scoped, "Ready", "True")
	w.allocation("-all", "pods=20")
	w.mustGive("web", "default", "pods=20") // of all Pods
	quota := w.newQuota("web", "terminating", "pods=11")
	quota.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: corev1.ResourceQuotaScopeTerminating, Operator: corev1.ScopeSelectorOpExists},
	}}
	err := admin.Create(t.Context(), quota)
	w.wantRefused(err, scoped.Name)
	if strings.Contains(err.Error(), w.name+"-all") {
		t.Errorf("%v names an allocation with other scopes", err)
	}
	quota.Spec.Hard = list("pods=10")
	must(w, admin.Create(t.Context(), quota))
	w.waitUsed(scoped.Name, "pods=10")
	w.waitUsed(w.name+"-all", "pods=20")
}

// Members of the break-glass group get past a cap. The cap still counts the result.
func TestBreakGlassPastACap(t *testing.T) {
	w := newTeam(t, "web")
	a := w.allocation("", "count/secrets=10")
	w.wantRefused(w.give("web", "default", "count/secrets=11"), w.name)
	glass, err := started.As(rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:masters", quotav1alpha1.BreakGlassGroup}})
	must(w, err)
	must(w, w.giveAs(glass, "web", "default", "count/secrets=11"))
	w.waitUsed(w.name, "count/secrets=11")
	w.waitCondition(a, quotav1alpha1.ConditionExceeded, metav1.ConditionTrue)
}
