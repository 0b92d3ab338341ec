package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// special are the names of the ResourceQuotas that a project's owner may change.
var special = []string{"terminating", "not-terminating", "best-effort", "not-best-effort", "default"}

// bind gives a user a role in a project, and returns a client for them.
func (w *team) bind(user, role, project string) client.Client {
	w.Helper()
	must(w, admin.Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.in(project), Name: role + "-" + user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}))
	api, err := started.As(rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}})
	must(w, err)
	eventually(w, func() error { // the API server learns of the binding
		return api.List(w.Context(), &corev1.ResourceQuotaList{}, client.InNamespace(w.in(project)))
	})
	return api
}

// may asks the API server.
func (w *team) may(api client.Client, verb, group, resource, name, project string) bool {
	w.Helper()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: w.in(project), Verb: verb, Group: group, Resource: resource, Name: name},
	}}
	must(w, api.Create(w.Context(), review))
	return review.Status.Allowed
}

func TestProjectOwner(t *testing.T) {
	w := newTeam(t, "web", "other")
	w.allocation("", "count/secrets=10")
	w.mustGive("other", "default", "count/secrets=4")
	names := append(slices.Clone(special), "lockdown")
	for _, name := range names {
		w.mustGive("web", name, "count/configmaps=5")
	}
	owner := w.bind("olga", "bursar-project-owner", "web")
	plainAdmin := w.bind("adam", "admin", "web")
	eventually(t, func() error { // a controller aggregates the role from others
		if !w.may(owner, "update", "", "resourcequotas", "default", "web") || !w.may(owner, "create", "", "secrets", "", "web") {
			return fmt.Errorf("the role has not got its rules")
		}
		return nil
	})
	for _, name := range names {
		isSpecial := slices.Contains(special, name)
		for _, verb := range []string{"update", "patch"} {
			if got := w.may(owner, verb, "", "resourcequotas", name, "web"); got != isSpecial {
				t.Errorf("the owner may %s %s: %t", verb, name, got)
			}
			if w.may(plainAdmin, verb, "", "resourcequotas", name, "web") {
				t.Errorf("an admin of the namespace may %s %s", verb, name)
			}
		}
		err := w.giveAs(owner, "web", name, "count/configmaps=6")
		if isSpecial && err != nil || !isSpecial && !apierrors.IsForbidden(err) {
			t.Errorf("changing %s: %v", name, err)
		}
	}
	for _, verb := range []string{"create", "delete", "deletecollection"} {
		if w.may(owner, verb, "", "resourcequotas", "default", "web") {
			t.Errorf("the owner may %s ResourceQuotas", verb)
		}
	}
	if w.may(owner, "update", "", "resourcequotas", "default", "other") {
		t.Error("the owner may change what is in the namespace of somebody else")
	}
	// The owner may do everything an admin may.
	admins, owners := &rbacv1.ClusterRole{}, &rbacv1.ClusterRole{}
	must(w, admin.Get(t.Context(), client.ObjectKey{Name: "admin"}, admins))
	must(w, admin.Get(t.Context(), client.ObjectKey{Name: "bursar-project-owner"}, owners))
	for _, rule := range admins.Rules {
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					resource, _, _ = strings.Cut(resource, "/")
					if !w.may(owner, verb, group, resource, "", "web") && w.may(plainAdmin, verb, group, resource, "", "web") {
						t.Errorf("an admin may %s %s.%s and the owner may not", verb, resource, group)
					}
				}
			}
		}
	}

	// The owner stays within the cap, can see it beforehand, and learns no names of other people's projects.
	w.waitProjection("web", "10", "4", "0", "6")
	local := &quotav1alpha1.LocalResourceQuotaAllocationList{}
	must(w, owner.List(t.Context(), local, client.InNamespace(w.in("web"))))
	if len(local.Items) != 1 {
		t.Errorf("the owner sees %d allocations, want 1", len(local.Items))
	}
	err := w.giveAs(owner, "web", "default", "count/secrets=7")
	w.wantRefused(err, w.name, "may have up to 6", "held by other namespaces 4")
	if strings.Contains(err.Error(), w.in("other")) {
		t.Errorf("%v names a project that the owner may not see", err)
	}
	must(w, w.giveAs(owner, "web", "default", "count/secrets=6"))
	if err := owner.Get(t.Context(), client.ObjectKey{Name: w.name}, &quotav1alpha1.ResourceQuotaAllocation{}); !apierrors.IsForbidden(err) {
		t.Errorf("the owner reads the allocation itself: %v", err)
	}
	w.bind("olga", "view", "other")
	eventually(t, func() error {
		if err := w.giveAs(owner, "web", "default", "count/secrets=7"); !strings.Contains(fmt.Sprint(err), "held by "+w.in("web")+" 6, "+w.in("other")+" 4") {
			return fmt.Errorf("got %v, want the project to be named that the owner may see now", err)
		}
		return nil
	})
}
