package validate

import (
	"context"
	"fmt"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// RegistrationUsers are those who depend on the registration of a resource type.
type RegistrationUsers struct {
	// Policies names the enabled ClaimCreationPolicies whose claims request it.
	Policies []string
	// Grants names the ResourceGrants that give it, as namespace/name.
	Grants []string
}

// garbageCollectors are the users by which the garbage collector deletes what its owner has left
// behind: its own, and that of a controller manager without users for its controllers.
var garbageCollectors = map[string]bool{
	"system:serviceaccount:kube-system:generic-garbage-collector": true,
	"system:kube-controller-manager":                              true,
}

// registrationDeletion keeps an active registration for as long as somebody depends on it:
// without it, policies would stop to be enforced and grants to count. One that is not active,
// such as the second for its resource type, holds up nothing.
func (w *Webhooks) registrationDeletion(ctx context.Context, c change[quotav1alpha1.ResourceRegistration]) verdict {
	registration := c.old
	if c.byBursar || garbageCollectors[c.username] || registration.DeletionTimestamp != nil ||
		!apimeta.IsStatusConditionTrue(registration.Status.Conditions, quotav1alpha1.ConditionActive) {
		return verdict{}
	}
	resourceType := registration.Spec.ResourceType
	users, err := w.RegistrationUsers(ctx, resourceType)
	if err != nil {
		return verdict{unknown: fmt.Errorf("find out who uses resource type %q: %w", resourceType, err)}
	}
	return verdict{forbidden: users.objection(registration.Name, resourceType)}
}

// objection says why the registration of that name may not be deleted, or nothing.
func (u RegistrationUsers) objection(name, resourceType string) string {
	var users, remedies []string
	switch n := len(u.Policies); n {
	case 0:
	case 1:
		users = append(users, fmt.Sprintf("ClaimCreationPolicy %s requests", u.Policies[0]))
		remedies = append(remedies, "delete or disable that policy")
	default:
		users = append(users, fmt.Sprintf("ClaimCreationPolicy %s and %d more request", u.Policies[0], n-1))
		remedies = append(remedies, "delete or disable those policies")
	}
	switch n := len(u.Grants); n {
	case 0:
	case 1:
		users = append(users, fmt.Sprintf("ResourceGrant %s gives", u.Grants[0]))
		remedies = append(remedies, fmt.Sprintf("delete that grant or take %s out of it", resourceType))
	default:
		users = append(users, fmt.Sprintf("ResourceGrant %s and %d more give", u.Grants[0], n-1))
		remedies = append(remedies, fmt.Sprintf("delete those grants or take %s out of them", resourceType))
	}
	if users == nil {
		return ""
	}
	return fmt.Sprintf("ResourceRegistration %s registers %s, which %s; %s first",
		name, resourceType, strings.Join(users, " and "), strings.Join(remedies, ", and "))
}
