package quotarequest

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/quotarequest"
)

// grant makes the grant of an approved request, and ends the request once the grant counts, or will at its time.
func (r *Reconciler) grant(ctx context.Context, request *quotav1alpha1.QuotaRequest) error {
	before := request.Status.DeepCopy()
	approved := request.Status.Approved
	reason := quotav1alpha1.ReasonApproved
	if approved.Partial {
		reason = quotav1alpha1.ReasonPartiallyApproved
	}
	if approved.GrantWaits && request.Spec.Withdrawn {
		return r.deleteWaitingGrant(ctx, request, before)
	}
	grant, err := r.ensureGrant(ctx, request)
	if err != nil {
		// Other requests of the consumer need not wait for this one, and people see why it does not end.
		approved.GrantWaits = true
		setApproved(request, quotav1alpha1.ReasonPending, "the request was approved, and cannot be granted yet: "+err.Error())
		return errors.Join(err, r.update(ctx, request, before))
	}
	active := apimeta.FindStatusCondition(grant.Status.Conditions, quotav1alpha1.ConditionActive)
	if active == nil || active.Status == metav1.ConditionUnknown || active.ObservedGeneration != grant.Generation {
		return nil // an event of the grant follows
	}
	approved.GrantWaits = active.Reason != quotav1alpha1.ReasonGrantActive && active.Reason != quotav1alpha1.ReasonExpired
	if approved.GrantWaits {
		reason = quotav1alpha1.ReasonPending
	}
	setApproved(request, reason, fmt.Sprintf("ResourceGrant %s: %s", grant.Name, active.Message))
	return r.update(ctx, request, before)
}

// deleteWaitingGrant deletes the waiting grant of a withdrawn request.
func (r *Reconciler) deleteWaitingGrant(ctx context.Context, request *quotav1alpha1.QuotaRequest, before *quotav1alpha1.QuotaRequestStatus) error {
	grant := &quotav1alpha1.ResourceGrant{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.Status.Approved.Grant}, grant)
	if err == nil && isFor(grant, request) {
		err = r.Client.Delete(ctx, grant)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the grant of the withdrawn QuotaRequest %s/%s: %w", request.Namespace, request.Name, err)
	}
	outcome := quotarequest.Decide(request, nil, quotarequest.Rule{}, nil, r.Clock.Now())
	setApproved(request, outcome.Reason, outcome.Message)
	return r.update(ctx, request, before)
}

// isFor reports whether a grant comes from a request.
func isFor(grant *quotav1alpha1.ResourceGrant, request *quotav1alpha1.QuotaRequest) bool {
	return grant.Annotations[quotav1alpha1.AnnotationRequestUID] == string(request.UID)
}

// ensureGrant returns the grant of a request, and creates it if there is none.
func (r *Reconciler) ensureGrant(ctx context.Context, request *quotav1alpha1.QuotaRequest) (*quotav1alpha1.ResourceGrant, error) {
	approved := request.Status.Approved
	grant := &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: request.Namespace, Name: approved.Grant,
			Annotations: map[string]string{quotav1alpha1.AnnotationRequest: request.Name, quotav1alpha1.AnnotationRequestUID: string(request.UID)},
		},
		Spec: *quotarequest.GrantSpec(request.Spec.ConsumerRef, approved.Increases, approved.Until),
	}
	if approvers := quotarequest.Approvers(request); approvers != "" {
		grant.Annotations[quotav1alpha1.AnnotationChangedBy] = approvers
	}
	switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(grant), grant); {
	case err == nil && !isFor(grant, request):
		return nil, fmt.Errorf("ResourceGrant %s does not come from this request: delete it", grant.Name)
	case err == nil:
		return grant, nil
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read ResourceGrant %s: %w", grant.Name, err)
	}
	if err := r.Client.Create(ctx, grant); err != nil {
		return nil, fmt.Errorf("create ResourceGrant %s: %w", grant.Name, err)
	}
	return grant, nil
}
