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

// authenticationConfig admits requests without credentials at exactly these paths. /api and /apis list all served kinds
// in one document each, so clients need no other document.
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

// anonymousDiscovery is the role with which unauthenticated users may list the served kinds. Kubernetes itself opens
// health and the version.
const anonymousDiscovery = "bursar:anonymous-discovery"

// allowAnonymousDiscovery creates the role and binds it to all unauthenticated users. It keeps an administrator's later
// changes.
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
