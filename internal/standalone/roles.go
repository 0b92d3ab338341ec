package standalone

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/auth/rbac/reconciliation"

	"github.com/bursar/bursar/deploy/rbac"
)

// roleTimeout bounds a request about a role: the server is our own and serves already.
const roleTimeout = 30 * time.Second

// installRoles creates or updates the roles of people and services. It removes rules added by others, unlike Kubernetes
// with its own roles. So a role agrees with the documentation. A role with the annotation
// rbac.authorization.kubernetes.io/autoupdate: "false" does not change, and labels and annotations of others stay too.
//
// On a cluster, the installer creates the roles. To do so, the operator would need every permission in them, or the
// permission to escalate. The server's own operator is a member of system:masters and needs no role.
func installRoles(config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.Timeout = roleTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	roles, err := rbac.ForUsers()
	if err != nil {
		return fmt.Errorf("read the roles: %w", err)
	}
	for _, role := range roles {
		reconcile := reconciliation.ReconcileRoleOptions{
			Role:                   reconciliation.ClusterRoleRuleOwner{ClusterRole: role},
			Confirm:                true,
			RemoveExtraPermissions: true,
			Client:                 reconciliation.ClusterRoleModifier{Client: client.RbacV1().ClusterRoles()},
		}
		// Another server on the same etcd may do the same.
		isOvertaken := func(err error) bool { return apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) }
		err := retry.OnError(retry.DefaultRetry, isOvertaken, func() error {
			_, err := reconcile.Run()
			return err
		})
		if err != nil {
			return fmt.Errorf("install ClusterRole %s: %w", role.Name, err)
		}
	}
	return nil
}
