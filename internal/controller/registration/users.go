package registration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// grantsPage is how many grants one request lists.
const grantsPage = 500

// Users are the objects that rely on the registration of a resource type.
type Users struct {
	// Policies names the enabled ClaimCreationPolicies whose claims request it.
	Policies []string
	// Grants names the ResourceGrants that give it, as namespace/name, except for inactive ones.
	Grants []string
}

// FindUsers asks the API server for the users of a registration. There are none while another registration can replace
// it. Objects in deletion do not count.
func FindUsers(ctx context.Context, live client.Reader, of *quotav1alpha1.ResourceRegistration) (Users, error) {
	return findUsers(ctx, live, of, grantsPage)
}

// findUsers reads the grants in pages, or all at once if page is 0.
func findUsers(ctx context.Context, reader client.Reader, of *quotav1alpha1.ResourceRegistration, page int64) (users Users, err error) {
	succeeded, err := hasSuccessor(ctx, reader, of)
	if succeeded || err != nil {
		return users, err
	}
	if users.Policies, err = policiesThatRequest(ctx, reader, of.Spec.ResourceType); err != nil {
		return users, err
	}
	users.Grants, err = grantsThatGive(ctx, reader, of.Spec.ResourceType, page)
	return users, err
}

// hasSuccessor reports whether another active registration for the resource type exists.
func hasSuccessor(ctx context.Context, reader client.Reader, of *quotav1alpha1.ResourceRegistration) (bool, error) {
	var list quotav1alpha1.ResourceRegistrationList
	if err := reader.List(ctx, &list); err != nil {
		return false, fmt.Errorf("list registrations: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(other quotav1alpha1.ResourceRegistration) bool {
		return other.UID != of.UID && other.Spec.ResourceType == of.Spec.ResourceType && other.DeletionTimestamp == nil && isActive(&other)
	}), nil
}

func policiesThatRequest(ctx context.Context, reader client.Reader, resourceType string) ([]string, error) {
	var list quotav1alpha1.ClaimCreationPolicyList
	if err := reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list policies: %w", err)
	}
	var names []string
	for i := range list.Items {
		policy := &list.Items[i]
		if policy.DeletionTimestamp == nil && slices.Contains(policy.ResourceTypes(), resourceType) {
			names = append(names, policy.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func grantsThatGive(ctx context.Context, reader client.Reader, resourceType string, page int64) ([]string, error) {
	var names []string
	givesIt := func(a quotav1alpha1.Allowance) bool { return a.ResourceType == resourceType }
	for next := ""; ; {
		var list quotav1alpha1.ResourceGrantList
		if err := reader.List(ctx, &list, pageOf(page, next)...); err != nil {
			return nil, fmt.Errorf("list grants: %w", err)
		}
		for i := range list.Items {
			grant := &list.Items[i]
			if grant.DeletionTimestamp == nil && !isInvalid(grant) && slices.ContainsFunc(grant.Spec.Allowances, givesIt) {
				names = append(names, grant.Namespace+"/"+grant.Name)
			}
		}
		if next = list.Continue; next == "" || page == 0 {
			slices.Sort(names)
			return names, nil
		}
	}
}

// isInvalid reports whether a grant cannot count. A grant outside of its period may count later.
func isInvalid(grant *quotav1alpha1.ResourceGrant) bool {
	active := apimeta.FindStatusCondition(grant.Status.Conditions, quotav1alpha1.ConditionActive)
	return active != nil && active.Status == metav1.ConditionFalse && active.Reason == quotav1alpha1.ReasonValidationFailed
}

func pageOf(size int64, next string) []client.ListOption {
	if size == 0 {
		return nil
	}
	return []client.ListOption{client.Limit(size), client.Continue(next)}
}

// Blocking returns the users of the registration and the next step, or "" if there are none.
func (u Users) Blocking(of *quotav1alpha1.ResourceRegistration) string {
	var users, remedies []string
	resourceType := of.Spec.ResourceType
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
		of.Name, resourceType, strings.Join(users, " and "), strings.Join(remedies, ", and "))
}

// amountsOf asks the API server for an object with an amount of a resource type: a grant, or the consumer of a bucket
// with claims. It returns its name, or "".
func amountsOf(ctx context.Context, live client.Reader, resourceType string) (string, error) {
	grants, err := grantsThatGive(ctx, live, resourceType, grantsPage)
	if err != nil || len(grants) > 0 {
		return firstOf("ResourceGrant %s gives it", grants), err
	}
	var list quotav1alpha1.AllowanceBucketList
	if err := live.List(ctx, &list, client.MatchingFields{"spec.resourceType": resourceType}); err != nil {
		return "", fmt.Errorf("list buckets: %w", err)
	}
	for i := range list.Items {
		if bucket := &list.Items[i]; bucket.Status.Allocated > 0 {
			return fmt.Sprintf("claims of %s %s hold some", bucket.Spec.ConsumerRef.Kind, bucket.Spec.ConsumerRef.Name), nil
		}
	}
	return "", nil
}

func firstOf(format string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(format, names[0])
}
