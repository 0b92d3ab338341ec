package chart

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// TestConsoleHasNoRights proves that the console of the chart has no right except to impersonate the listed people.
func TestConsoleHasNoRights(t *testing.T) {
	const login = "console: {enabled: true, url: 'https://quota.example.com', oidc: {issuerURL: 'https://login.example.com', clientID: bursar}}"
	for name, tt := range map[string]struct {
		values string
		want   []rbacv1.PolicyRule
	}{
		"defaults":   {"", nil},
		"tokens":     {"console: {enabled: true}", nil},
		"a provider": {login, nil},
		"impersonation": {everything, []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}, ResourceNames: []string{"alice"}},
			{APIGroups: []string{""}, Resources: []string{"groups"}, Verbs: []string{"impersonate"}, ResourceNames: []string{"web"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := rendered(t, tt.values)
			var rules []rbacv1.PolicyRule
			for _, object := range objects {
				for _, role := range rolesOf(object) {
					for _, o := range objects {
						if r, isRole := o.(*rbacv1.ClusterRole); isRole && r.Name == role {
							rules = append(rules, r.Rules...)
						}
					}
				}
			}
			if !slices.EqualFunc(rules, tt.want, func(a, b rbacv1.PolicyRule) bool { return a.String() == b.String() }) {
				t.Errorf("the console may do %v, want %v", rules, tt.want)
			}
		})
	}
}

// TestConsoleHasNoToken mounts a token of its ServiceAccount only where the console shows it: to impersonate.
// Otherwise a kubeconfig without credentials leads to the API server.
func TestConsoleHasNoToken(t *testing.T) {
	for name, tt := range map[string]struct {
		values string
		want   bool
	}{
		"tokens":        {"console: {enabled: true}", false},
		"a provider":    {"console: {enabled: true, url: 'https://quota.example.com', oidc: {issuerURL: 'https://login.example.com', clientID: bursar}}", false},
		"impersonation": {everything, true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := rendered(t, tt.values)
			pod := find[*appsv1.Deployment](t, objects, "bursar-console").Spec.Template.Spec
			if got := pod.AutomountServiceAccountToken; got == nil || *got != tt.want {
				t.Errorf("automountServiceAccountToken is %v, want %t", got, tt.want)
			}
			hasKubeconfig := slices.Contains(pod.Containers[0].Args, "--kubeconfig=/etc/bursar-console/kubeconfig")
			if hasKubeconfig == tt.want {
				t.Errorf("the arguments are %q", pod.Containers[0].Args)
			}
			if tt.want {
				return
			}
			kubeconfig, err := clientcmd.Load([]byte(find[*corev1.ConfigMap](t, objects, "bursar-console").Data["kubeconfig"]))
			if err != nil {
				t.Fatal(err)
			}
			if len(kubeconfig.AuthInfos) > 0 || kubeconfig.Clusters["cluster"].CertificateAuthority != "ca.crt" {
				t.Errorf("the kubeconfig is %+v", kubeconfig)
			}
		})
	}
}

// rolesOf returns the names of the console's roles in an object.
func rolesOf(object any) []string {
	var subjects []rbacv1.Subject
	var role string
	switch binding := object.(type) {
	case *rbacv1.ClusterRoleBinding:
		subjects, role = binding.Subjects, binding.RoleRef.Name
	case *rbacv1.RoleBinding:
		subjects, role = binding.Subjects, binding.RoleRef.Name
	}
	if slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return s.Name == "bursar-console" }) {
		return []string{role}
	}
	return nil
}

// TestConsoleIsApart looks for a Service in front of both the console and the operator.
func TestConsoleIsApart(t *testing.T) {
	objects := rendered(t, everything)
	for _, name := range []string{"bursar", "bursar-console"} {
		labels := find[*appsv1.Deployment](t, objects, name).Spec.Template.Labels
		for _, object := range objects {
			service, isService := object.(*corev1.Service)
			if !isService {
				continue
			}
			isSelected := true
			for key, value := range service.Spec.Selector {
				isSelected = isSelected && labels[key] == value
			}
			if isForConsole := service.Name == "bursar-console"; isSelected != (isForConsole == (name == "bursar-console")) {
				t.Errorf("Service %s selects the Pods of %s: %t", service.Name, name, isSelected)
			}
		}
	}
}
