package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/deploy/rbac"
	"github.com/bursar/bursar/internal/standalone"
)

// TestRolesAreBroughtInLine changes roles between two starts. The second start restores the permissions of the release.
// It keeps other changes, and roles with the annotation to leave them alone.
func TestRolesAreBroughtInLine(t *testing.T) {
	t.Parallel()
	const altered, kept, deleted = "bursar-tenant-viewer", "bursar-quota-manager", "bursar-tenant-admin"
	extra := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	dir := t.TempDir()
	t.Run("first start", func(t *testing.T) {
		api := start(t, standalone.Options{DataDir: dir}).Admin
		wantReleasedRoles(t, api)
		for name, annotations := range map[string]map[string]string{
			altered: nil,
			kept:    {rbacv1.AutoUpdateAnnotationKey: "false"},
		} {
			role := roleOf(t, api, name)
			role.Rules = append(role.Rules[1:], extra)
			role.Annotations = annotations
			role.Labels["team"] = "a"
			if err := api.Update(t.Context(), role); err != nil {
				t.Fatal(err)
			}
		}
		if err := api.Delete(t.Context(), roleOf(t, api, deleted)); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("second start", func(t *testing.T) {
		api := start(t, standalone.Options{DataDir: dir}).Admin
		wantReleasedRoles(t, api, kept)
		if role := roleOf(t, api, altered); role.Labels["team"] != "a" || role.Labels["rbac.authorization.k8s.io/aggregate-to-view"] != "true" {
			t.Errorf("the labels of %s are %v, want those of the release and those that somebody added", altered, role.Labels)
		}
		if rules := roleOf(t, api, kept).Rules; len(rules) == 0 || !cmp.Equal(rules[len(rules)-1], extra) {
			t.Errorf("the rules of %s are %v, though it says that it is to be left alone", kept, rules)
		}
	})
}

// wantReleasedRoles compares every role of people and services with the release, except for some.
func wantReleasedRoles(t *testing.T, api client.Client, except ...string) {
	t.Helper()
	roles, err := rbac.ForUsers()
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, name := range except {
		left[name] = true
	}
	for _, role := range roles {
		if left[role.Name] {
			continue
		}
		got := roleOf(t, api, role.Name)
		if diff := cmp.Diff(role.AggregationRule, got.AggregationRule); diff != "" {
			t.Errorf("%s is made up of others (-want +got):\n%s", role.Name, diff)
		}
		if role.AggregationRule != nil {
			continue // a controller fills in the rules
		}
		if diff := cmp.Diff(role.Rules, got.Rules); diff != "" {
			t.Errorf("%s (-want +got):\n%s", role.Name, diff)
		}
	}
}

func roleOf(t *testing.T, api client.Client, name string) *rbacv1.ClusterRole {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := api.Get(t.Context(), client.ObjectKey{Name: name}, role); err != nil {
		t.Fatal(err)
	}
	return role
}
