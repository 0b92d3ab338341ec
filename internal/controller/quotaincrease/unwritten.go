package quotaincrease

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// reportUnwritten reports a failed write of the quota of a namespace, unless a retry may succeed at once.
func (r *Reconciler) reportUnwritten(ctx context.Context, f *fit, objects []openmcpv1alpha1.QuotaIncrease, now outcome, err error) (reconcile.Result, error) {
	if errors.Is(err, errOutdated) {
		return reconcile.Result{RequeueAfter: outdatedDelay}, nil
	}
	if ignoreNamespaceGone(err) == nil {
		return reconcile.Result{}, nil
	}
	if often := (*contestedError)(nil); errors.As(err, &often) {
		r.Events.Eventf(referenceToNamespace(f.namespace), nil, corev1.EventTypeWarning, openmcpv1alpha1.EventQuotaContested, actionWrite,
			"somebody else keeps changing ResourceQuota %s, so Bursar restores it only once a second", f.match.definition.Name)
		return reconcile.Result{RequeueAfter: often.wait}, nil
	}
	if !r.outcomes.isFailing(f.namespace.Name) {
		return reconcile.Result{}, err // it may be temporary
	}
	now.reason, now.message = openmcpv1alpha1.ReasonWriteFailed, err.Error()
	r.outcomes.set(f.namespace.Name, now)
	return reconcile.Result{}, errors.Join(err, r.reportAll(ctx, objects, metav1.ConditionUnknown, openmcpv1alpha1.ReasonQuotaNotWritten, err.Error()))
}

// leaveAsIs reports on the increases that the namespace's definition is unusable now. It reports nothing while the
// validity is undetermined, because such a state is temporary.
func (r *Reconciler) leaveAsIs(ctx context.Context, m *match, objects []openmcpv1alpha1.QuotaIncrease) error {
	if m.validity.state == undetermined {
		return nil
	}
	return r.reportAll(ctx, objects, metav1.ConditionUnknown, openmcpv1alpha1.ReasonQuotaNotWritten,
		fmt.Sprintf("definition %s of QuotaServiceConfig %s is invalid, so ResourceQuota %s stays unchanged until somebody corrects the definition: %s",
			m.definition.Name, m.config.Name, m.definition.Name, m.validity.message))
}

// leaveForeign keeps a ResourceQuota of another author unchanged, and reports it.
func (r *Reconciler) leaveForeign(ctx context.Context, stored *corev1.ResourceQuota, m *match, objects []openmcpv1alpha1.QuotaIncrease, now outcome) error {
	now.reason = openmcpv1alpha1.ReasonQuotaExists
	now.message = fmt.Sprintf("ResourceQuota %s/%s was made by somebody else, and Bursar leaves it unchanged; delete or rename it to make definition %s of QuotaServiceConfig %s effective there",
		stored.Namespace, stored.Name, m.definition.Name, m.config.Name)
	if before := r.outcomes.set(stored.Namespace, now); !before.equal(now) {
		r.Events.Eventf(referenceToQuota(stored), nil, corev1.EventTypeWarning, openmcpv1alpha1.EventQuotaExists, actionWrite, "%s", now.message)
	}
	return r.reportAll(ctx, objects, metav1.ConditionUnknown, openmcpv1alpha1.ReasonQuotaNotWritten, now.message)
}
