package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// undecidedMax is how long grants wait for the decision on a new registration. So one registration does not hold back
// the other grants of a consumer for longer.
const undecidedMax = time.Minute

// Undecided reports whether a catalog may soon allow what it does not allow now. Either it lags behind the
// registrations on the API server, or one of the resource types has a new registration without a decision. check is the
// check by a catalog.
func Undecided(ctx context.Context, live client.Reader, resourceTypes []string, check func(*Catalog) error) (bool, error) {
	var list quotav1alpha1.ResourceRegistrationList
	if err := live.List(ctx, &list); err != nil {
		return false, fmt.Errorf("list the registrations: %w", err)
	}
	current := New()
	for i := range list.Items {
		current.SetRegistration(&list.Items[i])
	}
	if check(current) == nil {
		return true, nil
	}
	return slices.ContainsFunc(list.Items, func(r quotav1alpha1.ResourceRegistration) bool {
		isDuplicate := current.Registration(r.Spec.ResourceType) != nil
		return slices.Contains(resourceTypes, r.Spec.ResourceType) && !isDuplicate && isNew(&r)
	}), nil
}

// isNew reports whether a registration is new and neither active nor rejected.
func isNew(registration *quotav1alpha1.ResourceRegistration) bool {
	active := apimeta.FindStatusCondition(registration.Status.Conditions, quotav1alpha1.ConditionActive)
	isRejected := active != nil && active.Reason == quotav1alpha1.ReasonValidationFailed
	return registration.DeletionTimestamp == nil && !isActive(registration) && !isRejected && time.Since(registration.CreationTimestamp.Time) < undecidedMax
}
