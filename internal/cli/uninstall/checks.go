package uninstall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/quotakinds"
	"github.com/bursar/bursar/internal/cli/status"
	"github.com/bursar/bursar/internal/naming"
)

const (
	// leasePrefix begins the names of all Leases of the operator.
	leasePrefix = "bursar-"
	// leasePoll is the time between two reads of the Leases.
	leasePoll = 500 * time.Millisecond
	// silenceMin and silenceMax bound the duration of a Lease. After it, a holder without a renewal counts as gone.
	silenceMin, silenceMax = 7 * time.Second, time.Minute
	// stopTimeout is how long an operator may take to end.
	stopTimeout = 30 * time.Second
)

// permission is a required permission of the user.
type permission struct{ verb, group, resource string }

func (p permission) String() string {
	if p.group == "" {
		return p.verb + " " + p.resource
	}
	return p.verb + " " + p.resource + "." + p.group
}

// permissions returns all required permissions.
func (u *uninstaller) permissions() []permission {
	const admissionRegistration, extensions, coordination = "admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io"
	needed := []permission{{"list", coordination, "leases"}, {"get", extensions, "customresourcedefinitions"}, {"get", "", "namespaces"}}
	groups := []string{quotav1alpha1.GroupName, openmcpv1alpha1.GroupName, quotakinds.Consumers.Group}
	for _, group := range groups {
		needed = append(needed, permission{"list", group, "*"})
	}
	for _, webhooks := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		needed = append(needed, permission{"get", admissionRegistration, webhooks})
		if !u.DryRun {
			needed = append(needed, permission{"delete", admissionRegistration, webhooks})
		}
	}
	for _, k := range importedKinds {
		needed = append(needed, permission{"list", k.Group, k.Resource})
		if u.Purge && !u.DryRun {
			needed = append(needed, permission{"delete", k.Group, k.Resource})
		}
	}
	if u.Purge {
		needed = append(needed, permission{"list", "", "namespaces"})
	}
	if u.DryRun {
		return needed
	}
	for _, group := range groups {
		needed = append(needed, permission{"patch", group, "*"})
		if u.Purge {
			needed = append(needed, permission{"deletecollection", group, "*"})
		}
	}
	if u.Purge {
		needed = append(needed, permission{"delete", extensions, "customresourcedefinitions"}, permission{"delete", "", "namespaces"},
			permission{"delete", "", "secrets"}, permission{"delete", coordination, "leases"}, permission{"patch", "", "namespaces"},
			permission{"update", quotav1alpha1.GroupName, "claimcreationpolicies"}) // imports protect annotations by this right
	}
	return needed
}

// checkPermissions makes sure that the user has the rights for all later steps.
func (u *uninstaller) checkPermissions(ctx context.Context) error {
	var missing []string
	for _, needed := range u.permissions() {
		review, err := u.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: needed.verb, Group: needed.group, Resource: needed.resource,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask the API server what you may do: %w", err)
		}
		if !review.Status.Allowed {
			missing = append(missing, needed.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("you may not %s in the whole cluster; nothing was changed, run this as an administrator of the cluster", strings.Join(missing, ", "))
	}
	return nil
}

// checkServer rejects standalone servers, because they would install Bursar again.
func (u *uninstaller) checkServer(context.Context) error {
	version, err := u.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	if status.IsStandalone(version.GitVersion) {
		return errors.New("this is a standalone server, and Bursar is a part of it: to remove it, stop it and delete its data directory")
	}
	return nil
}

// checkNamespace makes sure that the given namespace is Bursar's, by the operator's Lease in it.
func (u *uninstaller) checkNamespace(ctx context.Context) error {
	leases, err := u.client.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + naming.LeaderLease})
	if err != nil {
		return fmt.Errorf("list the Leases %s: %w", naming.LeaderLease, err)
	}
	other := ""
	for _, lease := range leases.Items {
		if lease.Namespace == u.SystemNamespace {
			return nil
		}
		other = lease.Namespace
	}
	if other != "" {
		return fmt.Errorf("the namespace of Bursar is %s and not %s: add --system-namespace %s", other, u.SystemNamespace, other)
	}
	return nil
}

// checkStopped returns an error if a replica of the operator runs, because it would undo the removal. It needs no
// synchronized clocks: a running replica renews its Lease during the check. A stopping replica has time to end.
func (u *uninstaller) checkStopped(ctx context.Context) error {
	held, err := u.heldLeases(ctx)
	if err != nil || len(held) == 0 {
		return err
	}
	if u.DryRun {
		u.note("an operator may still run, and must be stopped first: %s is held", strings.Join(slices.Sorted(maps.Keys(held)), ", "))
		return nil
	}
	silence := silenceMin
	for _, lease := range held {
		if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil {
			silence = max(silence, min(time.Duration(*seconds)*time.Second, silenceMax))
		}
	}
	u.note("making sure that no operator runs: %s is held", strings.Join(slices.Sorted(maps.Keys(held)), ", "))
	renewed, renewedAt := "", time.Now()
	err = wait.PollUntilContextTimeout(ctx, leasePoll, max(stopTimeout, silence+leasePoll), false, func(ctx context.Context) (bool, error) {
		now, err := u.heldLeases(ctx)
		if err != nil {
			return false, err
		}
		for name, lease := range now {
			if held[name].ResourceVersion != lease.ResourceVersion {
				renewed, renewedAt = name, time.Now()
			}
		}
		held = now
		return len(held) == 0 || time.Since(renewedAt) >= silence, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return u.stillRuns("it renews " + renewed)
	}
	return err
}

// heldLeases returns the Leases of replicas and of a current leader, by kind and name.
func (u *uninstaller) heldLeases(ctx context.Context) (map[string]coordinationv1.Lease, error) {
	list, err := u.client.CoordinationV1().Leases(u.SystemNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the Leases in namespace %s: %w", u.SystemNamespace, err)
	}
	held := map[string]coordinationv1.Lease{}
	for _, lease := range list.Items {
		if strings.HasPrefix(lease.Name, leasePrefix) && ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
			held["Lease "+lease.Name] = lease
		}
	}
	return held, nil
}

// stillRuns returns an error on how to stop a running operator.
func (u *uninstaller) stillRuns(evidence string) error {
	return fmt.Errorf("an operator of Bursar still runs (%s): stop it first, with helm uninstall bursar --namespace %s or "+
		"kubectl scale deployment bursar --namespace %s --replicas=0", evidence, u.SystemNamespace, u.SystemNamespace)
}
