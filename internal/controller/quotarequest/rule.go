package quotarequest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/policy"
	"github.com/bursar/bursar/internal/quotarequest"
)

// policies are QuotaRequestPolicies, by name.
type policies []quotav1alpha1.QuotaRequestPolicy

// policies reads all policies.
func (r *Reconciler) policies(ctx context.Context) (policies, error) {
	var list quotav1alpha1.QuotaRequestPolicyList
	if err := r.Live.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list the QuotaRequestPolicies: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b quotav1alpha1.QuotaRequestPolicy) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// about returns the policies about a request.
func (p policies) about(request *quotav1alpha1.QuotaRequest) policies {
	return slices.DeleteFunc(slices.Clone(p), func(p quotav1alpha1.QuotaRequestPolicy) bool {
		isAbout := func(asked quotav1alpha1.RequestedQuota) bool {
			return slices.Contains(p.Spec.ResourceTypes, asked.ResourceType)
		}
		return len(p.Spec.ResourceTypes) > 0 && !slices.ContainsFunc(request.Spec.Requests, isAbout)
	})
}

// durationMax returns how long approved quota lasts at most, or 0.
func (p policies) durationMax() time.Duration {
	var shortest time.Duration
	for i := range p {
		shortest = shorter(shortest, p[i].Spec.MaxDuration)
	}
	return shortest
}

// expiresAt returns when a request expires without a decision from now on, or nil.
func (p policies) expiresAt(now time.Time) *metav1.Time {
	var shortest time.Duration
	for i := range p {
		shortest = shorter(shortest, p[i].Spec.ExpireAfter)
	}
	if shortest == 0 {
		return nil
	}
	return new(metav1.NewTime(now.Add(shortest).Truncate(time.Second)))
}

// shorter returns the shorter of two durations. 0 and nil are none.
func shorter(d time.Duration, other *metav1.Duration) time.Duration {
	if other == nil || d > 0 && d <= other.Duration {
		return d
	}
	return other.Duration
}

// PolicyError means that a policy has no answer for a request.
type PolicyError struct {
	policy string
	err    error
}

func (e *PolicyError) Error() string {
	return fmt.Sprintf("QuotaRequestPolicy %s cannot be applied to it: %v", e.policy, e.err)
}

// Unwrap returns the cause.
func (e *PolicyError) Unwrap() error { return e.err }

// ruleFor returns the applicable rule for a new request, from the policies about it. The error is a [PolicyError] if
// one of them fails: it might be the strictest.
func (r *Reconciler) ruleFor(ctx context.Context, request *quotav1alpha1.QuotaRequest, about policies, f figures) (quotarequest.Rule, error) {
	var rules []quotarequest.Rule
	for i := range about {
		rule, err := r.firstRule(ctx, request, &about[i], f)
		if err != nil {
			return quotarequest.Rule{}, err
		}
		if rule != nil {
			rules = append(rules, *rule)
		}
	}
	var resourceTypes []string
	for i := range request.Spec.Requests {
		resourceTypes = append(resourceTypes, request.Spec.Requests[i].ResourceType)
	}
	combined, err := quotarequest.Combine(rules, resourceTypes)
	if err != nil {
		return quotarequest.Rule{}, &PolicyError{about[len(about)-1].Name, err}
	}
	return combined, nil
}

// firstRule returns the first rule of a policy with a true condition, or nil.
func (r *Reconciler) firstRule(ctx context.Context, request *quotav1alpha1.QuotaRequest, p *quotav1alpha1.QuotaRequestPolicy, f figures) (*quotarequest.Rule, error) {
	compiled, errs := policy.CompileRequest(p)
	if len(errs) > 0 {
		return nil, &PolicyError{p.Name, errs.ToAggregate()}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(request)
	if err != nil {
		return nil, fmt.Errorf("convert the request: %w", err)
	}
	in := policy.RequestInput{Request: content, Asks: f.asks(request)}
	if compiled.UsesConsumer() {
		in.Consumer, err = r.consumer(ctx, request.Spec.ConsumerRef)
		switch {
		case apierrors.IsForbidden(err):
			return nil, &PolicyError{p.Name, fmt.Errorf("its rules read the consumer, and Bursar may not get %s objects: add that right", request.Spec.ConsumerRef.Kind)}
		case err != nil:
			return nil, err
		}
	}
	i, err := compiled.Rule(ctx, in)
	switch {
	case err != nil:
		return nil, &PolicyError{p.Name, err}
	case i < 0:
		return nil, nil //nolint:nilnil // no rule applies
	}
	rule := &p.Spec.Rules[i]
	return &quotarequest.Rule{
		Ref: &quotav1alpha1.RequestPolicyRef{Name: p.Name, Rule: rule.Name}, ResourceTypes: p.Spec.ResourceTypes, Action: rule.Action,
		Message: rule.Message, Approvers: rule.Approvers, Approvals: rule.Approvals,
	}, nil
}

// consumer returns the object of a consumer, or nil if there is none here.
func (r *Reconciler) consumer(ctx context.Context, ref quotav1alpha1.ConsumerRef) (map[string]any, error) {
	mapping, err := r.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	switch {
	case apimeta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look up kind %s: %w", ref.Kind, err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	name := client.ObjectKey{Name: ref.Name}
	if mapping.Scope.Name() == apimeta.RESTScopeNameNamespace {
		name.Namespace = ref.Namespace
	}
	switch err := r.Live.Get(ctx, name, object); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", message.Consumer(ref), err)
	}
	return object.Object, nil
}

// figures are the figures of the resource types in a request.
type figures map[string]figure

type figure struct {
	// limit is the limit of the consumer, with the approved and waiting increases. used is its usage, and total the sum
	// of all limits.
	limit, used, total ledger.Amount
	// increase is the amount of the whole request beyond the limit.
	increase ledger.Amount
}

// promises are increases by the name of the future grant.
type promises map[string][]quotav1alpha1.ApprovedIncrease

// figuresFor returns the present figures for a request, with the promises to its consumer not yet in its ledger.
func (r *Reconciler) figuresFor(ctx context.Context, request *quotav1alpha1.QuotaRequest, promised promises) (figures, error) {
	f := figures{}
	err := r.Ledgers.View(ctx, request.Spec.ConsumerRef, func(l *ledger.Ledger) {
		promised := promised.without(l, request.Namespace)
		for i := range request.Spec.Requests {
			resourceType := request.Spec.Requests[i].ResourceType
			account := l.Account(resourceType)
			f[resourceType] = figure{
				limit: account.Limit.AddUpTo(promised[resourceType]), used: account.Used + account.Reserved, total: r.Totals.Total(resourceType),
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read the quota of %s: %w", message.Consumer(request.Spec.ConsumerRef), err)
	}
	for i := range request.Spec.Requests {
		asked := &request.Spec.Requests[i]
		figure := f[asked.ResourceType]
		figure.increase = figure.increase.AddUpTo(f.increase(asked))
		f[asked.ResourceType] = figure
	}
	return f, nil
}

// without returns the sums of the promises without a grant in a ledger.
func (p promises) without(l *ledger.Ledger, namespace string) map[string]ledger.Amount {
	left := maps.Clone(p)
	for grant := range l.Grants() {
		if grant.Namespace == namespace {
			delete(left, grant.Name)
		}
	}
	sums := map[string]ledger.Amount{}
	for _, increases := range left {
		for i := range increases {
			sums[increases[i].ResourceType] = sums[increases[i].ResourceType].AddUpTo(ledger.Amount(increases[i].Increase))
		}
	}
	return sums
}

func (f figures) limits() quotarequest.Limits {
	limits := quotarequest.Limits{}
	for resourceType, figure := range f {
		limits[resourceType] = int64(figure.limit)
	}
	return limits
}

// asks returns the requested amounts as policies see them.
func (f figures) asks(request *quotav1alpha1.QuotaRequest) []policy.Ask {
	asks := make([]policy.Ask, len(request.Spec.Requests))
	for i := range request.Spec.Requests {
		asked := &request.Spec.Requests[i]
		now := f[asked.ResourceType]
		asks[i] = policy.Ask{
			ResourceType: asked.ResourceType, Dimensions: asked.Dimensions, Increase: int64(now.increase),
			Limit: int64(now.limit), Wanted: int64(now.limit.AddUpTo(now.increase)), Used: int64(now.used), Total: int64(now.total),
		}
	}
	return asks
}

// increase returns how much more than its limit a consumer wants by one of its amounts.
func (f figures) increase(asked *quotav1alpha1.RequestedQuota) ledger.Amount {
	amount := ledger.Amount(quotarequest.AmountOf(asked))
	if asked.Limit != nil {
		return max(0, amount-f[asked.ResourceType].limit)
	}
	return amount
}

// wanted returns the increases of a new request, in the form of an approval.
func (f figures) wanted(request *quotav1alpha1.QuotaRequest) []quotav1alpha1.ApprovedIncrease {
	var wanted []quotav1alpha1.ApprovedIncrease
	for i := range request.Spec.Requests {
		asked := &request.Spec.Requests[i]
		wanted = append(wanted, quotav1alpha1.ApprovedIncrease{ResourceType: asked.ResourceType, Increase: int64(f.increase(asked))})
	}
	return wanted
}

// overCeiling returns a rule against increases beyond a ceiling or a cap, or nil.
func (r *Reconciler) overCeiling(all policies, f figures, increases []quotav1alpha1.ApprovedIncrease) *quotarequest.Rule {
	sums := map[string]ledger.Amount{}
	for i := range increases {
		sums[increases[i].ResourceType] = sums[increases[i].ResourceType].AddUpTo(ledger.Amount(increases[i].Increase))
	}
	for _, resourceType := range slices.Sorted(maps.Keys(sums)) {
		for i := range all {
			for _, ceiling := range all[i].Spec.Ceilings {
				if ceiling.ResourceType != resourceType {
					continue
				}
				if text := r.beyond(f[resourceType].limit, sums[resourceType], ledger.Amount(ceiling.Limit), resourceType, "requests may raise it to"); text != "" {
					return &quotarequest.Rule{Ref: &quotav1alpha1.RequestPolicyRef{Name: all[i].Name}, Action: quotav1alpha1.ActionDeny, Message: text}
				}
			}
		}
		registration := r.Catalog.Registration(resourceType)
		if registration == nil || registration.MaxPerConsumer == 0 {
			continue
		}
		if text := r.beyond(f[resourceType].limit, sums[resourceType], ledger.Amount(registration.MaxPerConsumer), resourceType, "a consumer may have"); text != "" {
			return &quotarequest.Rule{Action: quotav1alpha1.ActionDeny, Message: text}
		}
	}
	return nil
}

// beyond returns a message if an increase would bring a limit beyond most, or "".
func (r *Reconciler) beyond(limit, increase, most ledger.Amount, resourceType, allows string) string {
	if increase <= max(0, most-limit) {
		return ""
	}
	advice := "there is nothing left to ask for"
	if left := most - limit; left > 0 {
		advice = fmt.Sprintf("ask for %s more at most", message.AmountOf(r.Catalog, resourceType, left))
	}
	return fmt.Sprintf("the limit of %s is %s, and %s %s: %s", resourceType, message.AmountOf(r.Catalog, resourceType, limit), allows,
		message.AmountOf(r.Catalog, resourceType, most)+" at most", advice)
}

// isPolicyError reports whether somebody has to mend a policy before a decision on the request is possible.
func isPolicyError(err error) bool {
	var wrong *PolicyError
	return errors.As(err, &wrong)
}
