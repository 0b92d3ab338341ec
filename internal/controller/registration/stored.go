package registration

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Stored answers questions about registrations from the API server. It may miss concurrent creates.
type Stored struct{ Live client.Reader }

// RegisteredBy returns the name of the registration of a resource type, or "" if there is none. A registration in
// deletion frees its type.
func (s Stored) RegisteredBy(ctx context.Context, resourceType string) (string, error) {
	var list quotav1alpha1.ResourceRegistrationList
	if err := s.Live.List(ctx, &list); err != nil {
		return "", err
	}
	for i := range list.Items {
		if list.Items[i].Spec.ResourceType == resourceType && list.Items[i].DeletionTimestamp == nil {
			return list.Items[i].Name, nil
		}
	}
	return "", nil
}

// InUse returns the users of a registration, and the next step, or "" if there are none.
func (s Stored) InUse(ctx context.Context, of *quotav1alpha1.ResourceRegistration) (string, error) {
	users, err := FindUsers(ctx, s.Live, of)
	return users.Blocking(of), err
}

// AmountsOf names an object with an amount of a resource type, or returns "" if there is none.
func (s Stored) AmountsOf(ctx context.Context, resourceType string) (string, error) {
	return amountsOf(ctx, s.Live, resourceType)
}
