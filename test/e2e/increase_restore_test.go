package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// Bursar undoes every edit of a generated ResourceQuota.
func TestRestore(t *testing.T) {
	w := newIncreased(t)
	definition := w.definition(base, cumulative, "count/secrets=10")
	definition.Template.Labels = map[string]string{"tier": "gold"}
	definition.Template.Annotations = map[string]string{"example.com/contact": "platform team"}
	w.config(definition)
	w.increase("more", "count/secrets=5")
	before := w.wantQuota(base, "count/secrets=15")
	w.wantLabels(w.name, base, cumulative)
	tests := []struct {
		name string
		edit func(*corev1.ResourceQuota)
	}{
		{"Higher", func(q *corev1.ResourceQuota) { q.Spec.Hard["count/secrets"] = list("a=1000")["a"] }},
		{"Lower", func(q *corev1.ResourceQuota) { q.Spec.Hard["count/secrets"] = list("a=1")["a"] }},
		{"Unlimited", func(q *corev1.ResourceQuota) { q.Spec.Hard = nil }},
		{"Another", func(q *corev1.ResourceQuota) { q.Spec.Hard["pods"] = list("a=1")["a"] }},
		{"Label", func(q *corev1.ResourceQuota) { q.Labels["tier"] = "silver" }},
		{"Annotation", func(q *corev1.ResourceQuota) { delete(q.Annotations, "example.com/contact") }},
		{"ManagedBy", func(q *corev1.ResourceQuota) { q.Labels[openmcpv1alpha1.LabelManagedBy] = "me" }},
		{"Composition", func(q *corev1.ResourceQuota) { q.Annotations[openmcpv1alpha1.AnnotationComposition] = "a lot" }},
		{"Owner", func(q *corev1.ResourceQuota) { q.OwnerReferences = nil }},
		{"Everything", func(q *corev1.ResourceQuota) {
			q.Labels, q.Annotations, q.OwnerReferences, q.Spec.Hard = nil, nil, nil, list("count/secrets=1000")
		}},
	}
	for _, tt := range tests {
		quota, err := w.quota(base)
		must(w, err)
		change(w, quota, tt.edit)
		w.wantAsBefore(tt.name, before)
	}
	must(w, admin.Delete(t.Context(), before))
	eventually(w, func() error {
		quota, err := w.quota(base)
		if err == nil && quota.UID == before.UID {
			return fmt.Errorf("the deleted ResourceQuota is still there")
		}
		return err
	})
	w.wantAsBefore("Delete", before)
	w.wantEvent("ResourceQuota", base, "QuotaChanged", "count/secrets: 15 = base 10 + more 5")
}

// wantAsBefore waits until a ResourceQuota has its former state.
func (w *increased) wantAsBefore(reason string, before *corev1.ResourceQuota) {
	w.Helper()
	eventually(w, func() error {
		quota, err := w.quota(before.Name)
		if err != nil {
			return err
		}
		type content struct {
			Labels, Annotations map[string]string
			Owners              []metav1.OwnerReference
			Hard                map[string]string
		}
		contentOf := func(q *corev1.ResourceQuota) content {
			return content{q.Labels, q.Annotations, q.OwnerReferences, said(q.Spec.Hard)}
		}
		if diff := cmp.Diff(contentOf(before), contentOf(quota)); diff != "" {
			return fmt.Errorf("%s: the ResourceQuota (-want +got):\n%s", reason, diff)
		}
		return nil
	})
}

// Other people's additions to a ResourceQuota stay. Removals from the template apply to it.
func TestOthersLabelsStay(t *testing.T) {
	w := newIncreased(t)
	definition := w.definition(base, cumulative, "count/secrets=10")
	definition.Template.Labels = map[string]string{"tier": "gold", "area": "a"}
	config := w.config(definition)
	change(w, w.wantQuota(base, "count/secrets=10"), func(q *corev1.ResourceQuota) { q.Labels["seen-by"] = "someone" })
	change(w, config, func(c *openmcpv1alpha1.QuotaServiceConfig) {
		c.Spec.Quotas[0].Template.Labels = map[string]string{"tier": "silver"}
	})
	eventually(w, func() error {
		quota, err := w.quota(base)
		if err != nil {
			return err
		}
		want := map[string]string{
			"tier": "silver", "seen-by": "someone", openmcpv1alpha1.LabelManagedBy: w.name, openmcpv1alpha1.LabelDefinition: base,
		}
		if diff := cmp.Diff(want, quota.Labels); diff != "" {
			return fmt.Errorf("labels (-want +got):\n%s", diff)
		}
		return nil
	})
}

// Bursar also restores the labels and annotations that show people the state.
func TestLabelsAreRestored(t *testing.T) {
	w := newIncreased(t)
	w.config(w.definition(base, cumulative, "count/secrets=10"))
	more := w.increase("more", "count/secrets=5")
	w.wantEffect("more", cumulative, "count/secrets: 5", yes, inEffect)
	w.wantLabels(w.name, base, cumulative)
	change(w, more, func(q *openmcpv1alpha1.QuotaIncrease) {
		q.Labels[openmcpv1alpha1.LabelMode] = "singular"
		q.Annotations[openmcpv1alpha1.AnnotationEffect] = "everything"
	})
	w.wantEffect("more", cumulative, "count/secrets: 5", yes, inEffect)
	change(w, w.namespace(), func(n *corev1.Namespace) { delete(n.Labels, openmcpv1alpha1.LabelBase) })
	w.wantLabels(w.name, base, cumulative)
}

// Without a change, Bursar writes nothing.
func TestNothingIsWrittenInVain(t *testing.T) {
	w := newIncreased(t)
	config := w.config(w.definition(base, singular, "count/secrets=10"))
	w.increase("used", "count/secrets=20")
	w.use("used")
	w.wantEffect("used", singular, "[active] count/secrets: 20", yes, inEffect)
	w.wantDefinitions(config, "base 1 InForce")
	versions := func() map[string]string {
		quota := w.wantQuota(base, "count/secrets=20")
		used, err := w.read("used")
		must(w, err)
		must(w, admin.Get(t.Context(), client.ObjectKeyFromObject(config), config))
		return map[string]string{"quota": quota.ResourceVersion, "increase": used.ResourceVersion, "config": config.ResourceVersion}
	}
	eventually(w, func() error { // another controller writes the usage, once
		if quota := w.wantQuota(base, "count/secrets=20"); !equality.Semantic.DeepEqual(quota.Spec.Hard, quota.Status.Hard) {
			return fmt.Errorf("the status of the ResourceQuota is %v", quota.Status)
		}
		return nil
	})
	before := versions()
	for i := range 5 { // each triggers a reconcile of the namespace
		name := fmt.Sprint("other-", i)
		w.increase(name, "count/secrets=1")
		w.wantEffect(name, singular, "", no, notSelected)
	}
	if diff := cmp.Diff(before, versions()); diff != "" {
		t.Errorf("versions (-before +after):\n%s", diff)
	}
}

// TestOwnersAreTold edits a generated ResourceQuota as a user with the right to write it, but not its definition.
func TestOwnersAreTold(t *testing.T) {
	w := newIncreased(t)
	w.config(w.definition(base, cumulative, "count/secrets=10"))
	quota := w.wantQuota(base, "count/secrets=10")
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"resourcequotas"}, Verbs: []string{"*"}}}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: w.name}}
	w.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "quotas"}, Rules: rules},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "quotas"}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "quotas"}})
	owner, err := started.As(rest.ImpersonationConfig{UserName: w.name, Groups: []string{"system:authenticated"}})
	must(w, err)
	eventually(w, func() error { return owner.List(t.Context(), &corev1.ResourceQuotaList{}, client.InNamespace(w.name)) })
	patch := func(patch string) error {
		return owner.Patch(t.Context(), quota, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	want := "its amounts come from definition base of QuotaServiceConfig " + w.name + " and the QuotaIncreases of the namespace"
	for _, edit := range []string{`{"spec":{"hard":{"count/secrets":"5"}}}`, `{"metadata":{"labels":null},"spec":{"hard":{"count/secrets":"500"}}}`} {
		if err := patch(edit); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", edit, err, want)
		}
	}
	must(w, patch(`{"metadata":{"labels":{"mine":"yes"}}}`))
	w.wantQuota(base, "count/secrets=10")
}
