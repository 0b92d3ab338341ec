package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// writer gives somebody all rights on the ResourceQuotas of a project, and returns a client for them.
func (w *team) writer(user, project string) client.Client {
	w.Helper()
	must(w, admin.Create(w.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.in(project), Name: user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"resourcequotas"}, Verbs: []string{"*"}}},
	}))
	must(w, admin.Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.in(project), Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}))
	api, err := started.As(rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}})
	must(w, err)
	eventually(w, func() error {
		return api.List(w.Context(), &corev1.ResourceQuotaList{}, client.InNamespace(w.in(project)))
	})
	return api
}

// wantKept checks for a denial because the request would leave the cap.
func (w *team) wantKept(what string, err error) {
	w.Helper()
	want := fmt.Sprintf("ResourceQuotaAllocation %s caps count/secrets, and without ResourceQuota default it may be unlimited in namespace %s", w.name, w.in("web"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		w.Errorf("%s: got %v, want %q", what, err, want)
	}
}

// TestACapCaps has an owner with all rights on a project's ResourceQuotas try to leave the cap.
func TestACapCaps(t *testing.T) {
	w := newTeam(t, "web")
	a := w.allocation("", "count/secrets=10")
	w.mustGive("web", "default", "count/secrets=3", "count/configmaps=50")
	owner := w.writer("wanda", "web")
	patch := func(who client.Client, patch string) error {
		return who.Patch(t.Context(), w.newQuota("web", "default"), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	w.wantKept("no limits at all", patch(owner, `{"spec":{"hard":null}}`))
	w.wantKept("another limit in its place", patch(owner, `{"spec":{"hard":{"count/secrets":null,"pods":"9"}}}`))
	w.wantKept("deletion", owner.Delete(t.Context(), w.newQuota("web", "default")))
	w.wantKept("deletion of all", owner.DeleteAllOf(t.Context(), &corev1.ResourceQuota{}, client.InNamespace(w.in("web"))))
	must(w, patch(owner, `{"spec":{"hard":{"count/configmaps":null}}}`)) // no allocation caps this
	must(w, patch(owner, `{"spec":{"hard":{"count/secrets":"0"}}}`))

	if err := patch(owner, `{"metadata":{"labels":{"quota.openmcp.cloud/managed-by":"none","quota.openmcp.cloud/quota-definition":"default"}}}`); !apierrors.IsForbidden(err) {
		t.Errorf("a ResourceQuota that says that a definition made it, which would be removed: %v", err)
	}

	// The garbage collector deletes objects whose owner never existed. It may not leave the cap either.
	must(w, patch(owner, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"8c3c6d0e-0000-4000-8000-000000000000"}]}}`))
	other := w.newQuota("web", "other", "pods=1")
	other.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "none", UID: "8c3c6d0e-0000-4000-8000-000000000001"}}
	must(w, admin.Create(t.Context(), other))
	waitNotFound(t, admin, removal, other) // no allocation caps it
	must(w, admin.Get(t.Context(), client.ObjectKeyFromObject(w.newQuota("web", "default")), &corev1.ResourceQuota{}))

	eventually(t, func() error { // the controller writes its status meanwhile
		must(w, admin.Get(t.Context(), client.ObjectKeyFromObject(a), a))
		a.Spec.MayLeave = true
		return admin.Update(t.Context(), a)
	})
	w.waitCondition(a, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	if err := owner.Delete(t.Context(), w.newQuota("web", "default")); client.IgnoreNotFound(err) != nil { // the collector may be first
		t.Errorf("where the allocation permits it: %v", err)
	}
}

// TestNamespacesGoWithTheirQuotas deletes a namespace under a cap.
func TestNamespacesGoWithTheirQuotas(t *testing.T) {
	w := newTeam(t, "web")
	w.allocation("", "count/secrets=10")
	w.mustGive("web", "default", "count/secrets=3")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.in("web")}}
	must(w, admin.Delete(t.Context(), namespace))
	waitNotFound(t, admin, removal, namespace)
}

// TestUnlimitedNamespaces lists the projects without a limit, and gives them the default.
func TestUnlimitedNamespaces(t *testing.T) {
	w := newTeam(t, "all", "none", "some")
	w.mustGive("all", "default", "count/secrets=1", "count/configmaps=0")
	w.mustGive("some", "small", "count/secrets=1")
	a := w.allocation("", "count/secrets=10", "count/configmaps=10")
	w.waitCondition(a, quotav1alpha1.ConditionLimited, metav1.ConditionFalse)
	want := []quotav1alpha1.UnlimitedNamespace{
		{Namespace: w.in("none"), Resources: []corev1.ResourceName{configMaps, secrets}},
		{Namespace: w.in("some"), Resources: []corev1.ResourceName{configMaps}},
	}
	if diff := cmp.Diff(want, a.Status.UnlimitedNamespaces); diff != "" {
		t.Errorf("unlimited (-want +got):\n%s", diff)
	}
	eventually(t, func() error {
		must(w, admin.Get(t.Context(), client.ObjectKeyFromObject(a), a))
		a.Spec.Default = &quotav1alpha1.DefaultResourceQuota{Hard: list("count/secrets=2", "count/configmaps=3")}
		return admin.Update(t.Context(), a)
	})
	w.waitCondition(a, quotav1alpha1.ConditionLimited, metav1.ConditionTrue)
	for project, hard := range map[string][]string{"none": {"count/secrets=2", "count/configmaps=3"}, "some": {"count/configmaps=3"}} {
		quota := w.newQuota(project, "default")
		must(w, admin.Get(t.Context(), client.ObjectKeyFromObject(quota), quota))
		if diff := cmp.Diff(list(hard...), quota.Spec.Hard); diff != "" {
			t.Errorf("project %s (-want +got):\n%s", project, diff)
		}
	}
	w.project("new")
	eventually(t, func() error {
		return admin.Get(t.Context(), client.ObjectKeyFromObject(w.newQuota("new", "default")), &corev1.ResourceQuota{})
	})
	if len(a.Status.UnlimitedNamespaces) > 0 {
		t.Errorf("%v are said to be without a limit", a.Status.UnlimitedNamespaces)
	}
}

func TestBadDefaults(t *testing.T) {
	w := newTeam(t)
	for amount, want := range map[string]string{
		"pods=1": "the allocation does not cap this resource", "count/secrets=11": "cannot get more than the cap of all together, 10", "count/secrets=-1": "must not be negative",
	} {
		a := w.newAllocation("", "count/secrets=10")
		a.Spec.Default = &quotav1alpha1.DefaultResourceQuota{Hard: list(amount)}
		if err := admin.Create(t.Context(), a); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", amount, err, want)
		}
	}
}
