package apiserver

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
)

// authenticationConfig lets requests without credentials in at these paths and, because paths are
// compared as a whole, at no others. /api and /apis answer in one document each with everything
// that is served, so clients need none of the documents below.
const authenticationConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions:
  - path: /livez
  - path: /readyz
  - path: /healthz
  - path: /version
  - path: /api
  - path: /apis
`

// anonymousDiscovery names the role that lets everybody see which kinds are served. Health and the
// version need none of ours: Kubernetes opens them itself.
const anonymousDiscovery = "bursar:anonymous-discovery"

// allowAnonymousDiscovery creates the role and binds it to everybody who has no credentials. What
// an administrator has made of them since stays.
func allowAnonymousDiscovery(ctx context.Context, client kubernetes.Interface) error {
	meta := metav1.ObjectMeta{Name: anonymousDiscovery}
	_, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: meta,
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/api", "/apis"}}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ClusterRole %s: %w", anonymousDiscovery, err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: anonymousDiscovery},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.AllUnauthenticated}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ClusterRoleBinding %s: %w", anonymousDiscovery, err)
	}
	return nil
}
