package grant

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
)

// reportExcess records an event on each registration whose maxTotal the grants of all consumers exceed by more than
// last time. Bursar takes nothing away by itself, because that would stop workloads.
func (r *Reconciler) reportExcess(ctx context.Context, active []ledger.Grant) error {
	for resourceType := range sumsOf(active...) {
		known := r.Catalog.Registration(resourceType)
		if known == nil {
			continue
		}
		excess, isNew := r.Totals.newExcess(resourceType, ledger.Amount(known.MaxTotal))
		if !isNew {
			continue
		}
		registration := &quotav1alpha1.ResourceRegistration{}
		switch err := r.Client.Get(ctx, client.ObjectKey{Name: known.Name}, registration); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("read ResourceRegistration %s: %w", known.Name, err)
		}
		r.Events.Eventf(registration, nil, corev1.EventTypeWarning, quotav1alpha1.EventCapExceeded, "Watch",
			"the grants of all consumers give %s more than maxTotal, %s. Nothing is taken back: give less in a grant, or raise maxTotal",
			message.Amount(excess, known), message.Amount(ledger.Amount(known.MaxTotal), known))
	}
	return nil
}
