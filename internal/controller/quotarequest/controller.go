// Package quotarequest decides QuotaRequests by the decisions on them, and makes the grants of the approved ones. Only
// the operator and tests import it.
//
// An approval takes three steps. The controller records the approved increases in the request's status. Then it creates
// the grant, under a name derived from the request's UID. Once the grant counts, it sets the condition Approved for
// good. After a crash at any step the next process goes on from there: there is only one grant.
package quotarequest

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/kube/events"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/quotarequest"
	"github.com/bursar/bursar/internal/quotarequest/foureyes"
)

// waitRetry is the time until the next look at a request waiting for another one of its consumer.
const waitRetry = time.Second

// Ledgers reads the ledgers of all consumers.
type Ledgers interface {
	// View calls f with the ledger of a consumer.
	View(ctx context.Context, consumer quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error
}

// Totals has the limits of all consumers together.
type Totals interface {
	// Total returns the sum of the allowances for all claims of a resource type with some dimensions.
	Total(resourceType string, d ledger.Dimensions) ledger.Amount
}

// Clock has the time of the API server.
type Clock interface {
	Now() time.Time
}

// Lead is the lead of this replica.
type Lead interface {
	// Check returns an error unless this replica certainly leads.
	Check() error
}

// policyRetry is the time until the next look at a request after a policy failed on it. A change of the policy causes
// an earlier look.
const policyRetry = time.Minute

// Reconciler decides requests.
type Reconciler struct {
	// Client writes, and Live reads from the API server, not from a cache: the reconciler must not miss a decision, and
	// not make it twice.
	Client  client.Client
	Live    client.Reader
	Ledgers Ledgers
	Totals  Totals
	Catalog *catalog.Catalog
	// Complete close once Catalog and Totals are complete. There are no decisions before.
	Complete []<-chan struct{}
	// Lead, if set, keeps a paused leader from approvals: another replica may have approved others meanwhile.
	Lead Lead
	// Permissions find approvers who count as one person.
	Permissions foureyes.Permissions

	Clock   Clock
	Events  *events.Recorder
	Metrics *Metrics

	promised promisedBook
}

// SetupWithManager registers the reconciler. [IndexOpen] has prepared the cache.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	inTurn := func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return newQueue(mgr.GetCache(), name, limiter)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("quotarequest").
		For(&quotav1alpha1.QuotaRequest{}, builder.WithPredicates(predicate.NewPredicateFuncs(isOpen))).
		Watches(&quotav1alpha1.QuotaDecision{}, handler.EnqueueRequestsFromMapFunc(requestOfDecision)).
		Watches(&quotav1alpha1.ResourceGrant{}, handler.EnqueueRequestsFromMapFunc(requestOfGrant)).
		Watches(&quotav1alpha1.QuotaRequestPolicy{}, handler.EnqueueRequestsFromMapFunc(r.undecided)).
		// One at a time, because requests for a limit depend on each other.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, NewQueue: inTurn}).
		Complete(r)
}

func isOpen(object client.Object) bool {
	return !quotarequest.IsFinal(object.(*quotav1alpha1.QuotaRequest))
}

// undecided returns the requests without a rule: a now changed policy may have kept them from one. The others keep
// their rule.
func (r *Reconciler) undecided(ctx context.Context, _ client.Object) []reconcile.Request {
	var list quotav1alpha1.QuotaRequestList
	if err := r.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list requests")
		return nil
	}
	var open []reconcile.Request
	for i := range list.Items {
		if request := &list.Items[i]; isOpen(request) && request.Status.ApprovalsNeeded == 0 {
			open = append(open, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(request)})
		}
	}
	return open
}

func requestOfDecision(_ context.Context, object client.Object) []reconcile.Request {
	decision := object.(*quotav1alpha1.QuotaDecision)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: decision.Namespace, Name: decision.Spec.RequestRef.Name}}}
}

func requestOfGrant(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetAnnotations()[quotav1alpha1.AnnotationRequest]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
}

// Reconcile implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, name reconcile.Request) (reconcile.Result, error) {
	for _, complete := range r.Complete {
		select {
		case <-complete:
		case <-ctx.Done():
			return reconcile.Result{}, ctx.Err()
		}
	}
	if err := r.promised.complete(ctx, r.Live); err != nil {
		return reconcile.Result{}, err
	}
	request := &quotav1alpha1.QuotaRequest{}
	// A final request stays so, and most are: the cache spares the API server a look at each at the start.
	if err := r.Client.Get(ctx, name.NamespacedName, request); err == nil && quotarequest.IsFinal(request) {
		return reconcile.Result{}, nil
	}
	if err := r.Live.Get(ctx, name.NamespacedName, request); err != nil {
		if apierrors.IsNotFound(err) {
			r.promised.forget(name.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r.promised.note(request)
	if quotarequest.IsFinal(request) || request.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	if request.Status.Approved != nil {
		return reconcile.Result{}, r.grant(ctx, request)
	}
	return r.decide(ctx, request)
}

// decide finds the rule for an undecided request, and applies it.
func (r *Reconciler) decide(ctx context.Context, request *quotav1alpha1.QuotaRequest) (reconcile.Result, error) {
	if request.Spec.Withdrawn {
		outcome := quotarequest.Decide(request, nil, quotarequest.Rule{}, nil, r.Clock.Now())
		return reconcile.Result{}, r.record(ctx, request, r.storedRule(request), &outcome)
	}
	promised, isSettled := r.promised.others(request)
	if !isSettled {
		return reconcile.Result{RequeueAfter: waitRetry}, nil
	}
	all, err := r.policies(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	about := all.about(request)
	f, err := r.figuresFor(ctx, request, promised)
	if err != nil {
		return reconcile.Result{}, err
	}
	rule := r.storedRule(request)
	if request.Status.ApprovalsNeeded == 0 {
		rule, err = r.ruleFor(ctx, request, about, f)
		if isPolicyError(err) {
			before := request.Status.DeepCopy()
			setApproved(request, quotav1alpha1.ReasonPending, err.Error())
			return reconcile.Result{RequeueAfter: policyRetry}, r.update(ctx, request, before)
		} else if err != nil {
			return reconcile.Result{}, err
		}
		request.Status.ExpiresAt = about.expiresAt(r.Clock.Now())
	}
	rule.DurationMax = quotarequest.DurationMax(all, request)
	outcome, err := r.outcome(ctx, request, rule, all, f)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.record(ctx, request, rule, &outcome); err != nil {
		return reconcile.Result{}, err
	}
	if request.Status.Approved != nil && !quotarequest.IsFinal(request) {
		return reconcile.Result{}, r.grant(ctx, request)
	}
	return reconcile.Result{RequeueAfter: r.untilExpiry(request)}, nil
}

// storedRule returns the rule in the status of a request: a later change of its policy is for later requests.
func (r *Reconciler) storedRule(request *quotav1alpha1.QuotaRequest) quotarequest.Rule {
	status := &request.Status
	return quotarequest.Rule{Ref: status.PolicyRef, Action: quotav1alpha1.ActionAsk, Approvers: status.Approvers, Approvals: status.ApprovalsNeeded}
}

// outcome applies a rule to the decisions on a request. A ceiling denies an increase beyond it, if the increase is new
// or about to become a grant.
func (r *Reconciler) outcome(
	ctx context.Context, request *quotav1alpha1.QuotaRequest, rule quotarequest.Rule, all policies, f *figures,
) (quotarequest.Outcome, error) {
	decisions, same, err := r.decisions(ctx, request, rule)
	if err != nil {
		return quotarequest.Outcome{}, err
	}
	now := r.Clock.Now()
	outcome := quotarequest.Decide(request, decisions, rule, f.limits(), now)
	if outcome.Reason == quotav1alpha1.ReasonPending {
		outcome.Message += same
	}

	var increases []quotav1alpha1.ApprovedIncrease
	switch {
	case outcome.Approved != nil:
		increases = outcome.Approved.Increases
	case outcome.Reason == quotav1alpha1.ReasonPending && request.Status.ApprovalsNeeded == 0:
		increases = f.requestedIncreases() // nobody need look at a new request for too much, or for nothing
		if !slices.ContainsFunc(increases, func(i quotav1alpha1.ApprovedIncrease) bool { return i.Increase > 0 }) {
			has := quotarequest.Rule{Action: quotav1alpha1.ActionApprove, Message: "the consumer has that much already"}
			return quotarequest.Decide(request, decisions, has, f.limits(), now), nil
		}
	}
	denies, err := r.overCeiling(all, f, increases)
	if err != nil {
		return quotarequest.Outcome{}, err
	}
	if denies != nil {
		return quotarequest.Decide(request, decisions, *denies, f.limits(), now), nil
	}
	return outcome, nil
}

// record writes the outcome into the status. An approval is not final before its grant counts, if there is one to make.
func (r *Reconciler) record(ctx context.Context, request *quotav1alpha1.QuotaRequest, rule quotarequest.Rule, o *quotarequest.Outcome) error {
	before := request.Status.DeepCopy()
	request.Status.Approvers, request.Status.ApprovalsNeeded, request.Status.PolicyRef = rule.Approvers, max(rule.Approvals, 1), rule.Ref
	request.Status.Asks = message.Asks(r.Catalog, request.Spec.Requests)
	request.Status.Decisions, request.Status.Approved = o.Decisions, o.Approved
	reason, text := o.Reason, o.Message
	if o.Approved != nil && o.Approved.Grant != "" {
		reason, text = quotav1alpha1.ReasonPending, o.Message+", and is about to be granted"
	}
	setApproved(request, reason, text)
	return r.update(ctx, request, before)
}

// update writes the status if it has changed, and records an event on a new state. A conflict means that the request
// has changed, and needs another decision.
func (r *Reconciler) update(ctx context.Context, request *quotav1alpha1.QuotaRequest, before *quotav1alpha1.QuotaRequestStatus) error {
	if equality.Semantic.DeepEqual(*before, request.Status) {
		return nil
	}
	if r.Lead != nil {
		if err := r.Lead.Check(); err != nil {
			return fmt.Errorf("decide QuotaRequest %s/%s: %w", request.Namespace, request.Name, err)
		}
	}
	r.promised.note(request) // the outcome of the write may be unknown
	if err := r.Client.Status().Update(ctx, request); err != nil {
		return fmt.Errorf("update the status of QuotaRequest %s/%s: %w", request.Namespace, request.Name, err)
	}
	was := apimeta.FindStatusCondition(before.Conditions, quotav1alpha1.ConditionApproved)
	if c := apimeta.FindStatusCondition(request.Status.Conditions, quotav1alpha1.ConditionApproved); was == nil || was.Reason != c.Reason {
		kind := corev1.EventTypeNormal
		if c.Reason == quotav1alpha1.ReasonDenied || c.Reason == quotav1alpha1.ReasonExpired {
			kind = corev1.EventTypeWarning
		}
		if c.Status != metav1.ConditionUnknown {
			r.Metrics.ended(request, r.Clock.Now())
		}
		r.Events.Eventf(request, nil, kind, quotav1alpha1.EventQuotaRequest+c.Reason, "Decide", "%s", c.Message)
	}
	return nil
}

// untilExpiry returns the time until a pending request expires, or 0 if it does not.
func (r *Reconciler) untilExpiry(request *quotav1alpha1.QuotaRequest) time.Duration {
	var next time.Duration
	for _, at := range []*metav1.Time{request.Status.ExpiresAt, request.Spec.Until} {
		if at == nil || quotarequest.IsFinal(request) {
			continue
		}
		if left := max(at.Sub(r.Clock.Now()), time.Millisecond); next == 0 || left < next {
			next = left
		}
	}
	return next
}
