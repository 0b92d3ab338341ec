package validate

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/quotarequest"
)

// Requests reads QuotaRequests from the API server, not from a cache.
type Requests interface {
	// Request returns a request. The error is NotFound if there is none.
	Request(ctx context.Context, name types.NamespacedName) (*quotav1alpha1.QuotaRequest, error)
	// Decisions returns the decisions on a request, and on earlier ones of its name.
	Decisions(ctx context.Context, request *quotav1alpha1.QuotaRequest) ([]quotav1alpha1.QuotaDecision, error)
	// CountOpen returns how many requests without an end a consumer has, and how many a user made.
	CountOpen(ctx context.Context, consumer quotav1alpha1.ConsumerRef, requester string) (ofConsumer, ofUser int, err error)
}

// The largest numbers of open requests. Both count in a cache, so a burst may pass them by a few.
const (
	openOfConsumerMax = 20
	openOfUserMax     = 100
)

// Clock has the time of the API server.
type Clock interface {
	Now() time.Time
}

// userOf returns the user of an authenticated request.
func userOf(user authenticationv1.UserInfo) *quotav1alpha1.RequestUser {
	return &quotav1alpha1.RequestUser{Username: user.Username, UID: user.UID, Groups: user.Groups}
}

// isUser reports whether a user is the one of an authenticated request, with the same groups.
func isUser(u *quotav1alpha1.RequestUser, user authenticationv1.UserInfo) bool {
	return equality.Semantic.DeepEqual(u, userOf(user))
}

// quotaRequest validates a create, and the user of a withdrawal. The schema makes the rest of a request immutable.
func (w *Webhooks) quotaRequest(ctx context.Context, c change[quotav1alpha1.QuotaRequest]) result {
	switch {
	case c.new == nil:
		return result{}
	case c.old != nil:
		return result{errs: checkWithdrawal(c)}
	}
	spec := &c.new.Spec
	path := field.NewPath("spec")
	errs := checkReference(path.Child("consumerRef"), spec.ConsumerRef)
	if !isUser(spec.Requester, c.user) {
		errs = append(errs, field.Invalid(path.Child("requester"), spec.Requester, "is set by Bursar to the user of the create, and something else changed it"))
	}
	if spec.Withdrawn || spec.WithdrawnBy != nil {
		errs = append(errs, field.Invalid(path.Child("withdrawn"), true, "a new request cannot be withdrawn"))
	}
	if spec.Until != nil && !spec.Until.After(w.Clock.Now()) {
		errs = append(errs, field.Invalid(path.Child("until"), spec.Until, "is over"))
	}
	if home := w.Catalog.ConsumerNamespace(spec.ConsumerRef); home != c.new.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "namespace"), c.new.Namespace,
			fmt.Sprintf("a request for %s %s belongs in namespace %s, where its quota is shown", spec.ConsumerRef.Kind, spec.ConsumerRef.Name, home)))
	}
	seen := map[string]bool{}
	for i := range spec.Requests {
		r := &spec.Requests[i]
		at := path.Child("requests").Index(i)
		key := fmt.Sprint(r.ResourceType, r.Dimensions)
		if seen[key] {
			errs = append(errs, field.Duplicate(at, r.ResourceType))
		}
		seen[key] = true
	}
	if errs = append(errs, w.checkGrantable(path, spec)...); len(errs) > 0 || c.byBursar {
		return result{errs: errs}
	}
	return w.checkOpen(ctx, c.new, c.user)
}

// checkOpen rejects a request of a consumer or a user with too many open ones.
func (w *Webhooks) checkOpen(ctx context.Context, request *quotav1alpha1.QuotaRequest, requester authenticationv1.UserInfo) result {
	consumer := request.Spec.ConsumerRef
	ofConsumer, ofUser, err := w.Requests.CountOpen(ctx, consumer, requester.Username)
	if err != nil {
		return result{unknown: fmt.Errorf("count the open QuotaRequests of %s: %w", message.Consumer(consumer), err)}
	}
	var who string
	switch {
	case ofConsumer >= openOfConsumerMax:
		who = fmt.Sprintf("%s has %d open QuotaRequests, and %d are", message.Consumer(consumer), ofConsumer, openOfConsumerMax)
	case ofUser >= openOfUserMax:
		who = fmt.Sprintf("you have %d open QuotaRequests, and %d are", ofUser, openOfUserMax)
	default:
		return result{}
	}
	return result{forbidden: who + fmt.Sprintf(" allowed: wait for decisions, or withdraw some. To see them: bursar requests -n %s; to withdraw one: "+
		"bursar request --withdraw NAME -n %[1]s", request.Namespace)}
}

// checkWithdrawal checks that withdrawnBy is the user who withdraws the request, and does not change otherwise.
func checkWithdrawal(c change[quotav1alpha1.QuotaRequest]) field.ErrorList {
	isRight := equality.Semantic.DeepEqual(c.old.Spec.WithdrawnBy, c.new.Spec.WithdrawnBy)
	if isWithdrawal(c.old, c.new) {
		isRight = isUser(c.new.Spec.WithdrawnBy, c.user)
	}
	if isRight {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "withdrawnBy"), c.new.Spec.WithdrawnBy, "is set by Bursar to the user who withdraws")}
}

// checkGrantable checks whether a grant of the whole request could count.
func (w *Webhooks) checkGrantable(path *field.Path, spec *quotav1alpha1.QuotaRequestSpec) field.ErrorList {
	grant := quotarequest.GrantSpec(spec.ConsumerRef, asIncreases(spec.Requests), spec.Until)
	if wrong := checkAllowances(path.Child("requests"), grant.Allowances); len(wrong) > 0 {
		return wrong
	}
	err := w.Catalog.CheckGrant(grant)
	if err == nil {
		err = w.Catalog.CheckNew(grant.ResourceTypes()...)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(path.Child("requests"), field.OmitValueType{}, err.Error())}
	}
	return nil
}

// asIncreases returns the largest possible increases of a grant.
func asIncreases(requests []quotav1alpha1.RequestedQuota) []quotav1alpha1.ApprovedIncrease {
	var increases []quotav1alpha1.ApprovedIncrease
	for i := range requests {
		r := &requests[i]
		increases = append(increases, quotav1alpha1.ApprovedIncrease{ResourceType: r.ResourceType, Dimensions: r.Dimensions, Increase: quotarequest.AmountOf(r)})
	}
	return increases
}

// quotaDecision validates a create. The schema makes a decision immutable.
func (w *Webhooks) quotaDecision(ctx context.Context, c change[quotav1alpha1.QuotaDecision]) result {
	if c.old != nil || c.new == nil {
		return result{}
	}
	spec := &c.new.Spec
	request, err := w.Requests.Request(ctx, types.NamespacedName{Namespace: c.new.Namespace, Name: spec.RequestRef.Name})
	at := field.NewPath("spec", "requestRef")
	switch {
	case apierrors.IsNotFound(err):
		return result{errs: field.ErrorList{field.NotFound(at.Child("name"), spec.RequestRef.Name)}}
	case err != nil:
		return result{unknown: fmt.Errorf("read QuotaRequest %s: %w", spec.RequestRef.Name, err)}
	case string(request.UID) != spec.RequestRef.UID:
		return result{errs: field.ErrorList{field.Invalid(at.Child("uid"), spec.RequestRef.UID,
			fmt.Sprintf("QuotaRequest %s has the UID %s: the decision is about another one", request.Name, request.UID))}}
	}
	if why := quotarequest.MayNotDecide(request, spec.Decision, c.user); why != "" {
		return result{forbidden: why}
	}
	if spec.Decision == quotav1alpha1.DecisionApprove {
		why, err := w.samePersonReason(ctx, request, c.user)
		if err != nil || why != "" {
			return result{unknown: err, forbidden: why}
		}
	}
	return result{errs: w.checkDecision(c, request)}
}

func (w *Webhooks) checkDecision(c change[quotav1alpha1.QuotaDecision], request *quotav1alpha1.QuotaRequest) field.ErrorList {
	spec, path := &c.new.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if !isUser(spec.DecidedBy, c.user) {
		errs = append(errs, field.Invalid(path.Child("decidedBy"), spec.DecidedBy, "is set by Bursar to the user of the create, and something else changed it"))
	}
	if spec.Until != nil {
		switch {
		case !spec.Until.After(w.Clock.Now()):
			errs = append(errs, field.Invalid(path.Child("until"), spec.Until, "is over"))
		case request.Spec.Until != nil && request.Spec.Until.Before(spec.Until):
			errs = append(errs, field.Invalid(path.Child("until"), spec.Until, fmt.Sprintf("is later than requested, %s", request.Spec.Until.UTC().Format(time.RFC3339))))
		}
	}
	if len(spec.Amounts) == 0 {
		return errs
	}
	amounts := path.Child("amounts")
	if len(spec.Amounts) != len(request.Spec.Requests) {
		return append(errs, field.Invalid(amounts, len(spec.Amounts), fmt.Sprintf("give an amount for each of the %d requested resource types, in the same order", len(request.Spec.Requests))))
	}
	hasAny := false
	for i := range spec.Amounts {
		decided, asked := &spec.Amounts[i], &request.Spec.Requests[i]
		hasAny = hasAny || decided.Amount > 0
		switch {
		case decided.ResourceType != asked.ResourceType:
			errs = append(errs, field.Invalid(amounts.Index(i).Child("resourceType"), decided.ResourceType, "the request has "+asked.ResourceType+" here"))
		case decided.Amount > quotarequest.AmountOf(asked):
			errs = append(errs, field.Invalid(amounts.Index(i).Child("amount"), decided.Amount, fmt.Sprintf("is more than requested, %d", quotarequest.AmountOf(asked))))
		}
	}
	if !hasAny {
		errs = append(errs, field.Invalid(amounts, nil, "approves nothing: deny the request instead"))
	}
	return errs
}
