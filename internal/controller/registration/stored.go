package registration

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Stored answers questions about registrations by what the API server has right now. It need not know of creates that
// go on at the same time.
type Stored struct{ Live client.Reader }

// RegisteredBy returns the name of the registration of a resource type, or "" if there is none. One that is being deleted
// leaves the type to another.
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

// InUse returns who relies on a registration, and what to do about it, or "" if nobody does.
func (s Stored) InUse(ctx context.Context, of *quotav1alpha1.ResourceRegistration) (string, error) {
	users, err := FindUsers(ctx, s.Live, of)
	return users.Blocking(of), err
}

// AmountsOf names an object that stores an amount of a resource type, or returns "" if there is none.
func (s Stored) AmountsOf(ctx context.Context, resourceType string) (string, error) {
	return amountsOf(ctx, s.Live, resourceType)
}
