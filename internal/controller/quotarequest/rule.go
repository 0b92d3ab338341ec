package quotarequest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	return slices.DeleteFunc(slices.Clone(p), func(p quotav1alpha1.QuotaRequestPolicy) bool { return !quotarequest.IsAbout(&p, request) })
}

// expiresAt returns when a request expires without a decision from now on, or nil.
func (p policies) expiresAt(now time.Time) *metav1.Time {
	var shortest time.Duration
	for i := range p {
		shortest = quotarequest.Shorter(shortest, p[i].Spec.ExpireAfter)
	}
	if shortest == 0 {
		return nil
	}
	return new(metav1.NewTime(now.Add(shortest).Truncate(time.Second)))
}

// policyError means that a policy has no answer for a request.
type policyError struct {
	policy string
	err    error
}

func (e *policyError) Error() string {
	return fmt.Sprintf("QuotaRequestPolicy %s cannot be applied to this request: %v", e.policy, e.err)
}

// Unwrap returns the cause.
func (e *policyError) Unwrap() error { return e.err }

// ruleFor returns the applicable rule for a new request, from the policies about it. The error is a policyError if
// one of them fails: it might be the strictest.
func (r *Reconciler) ruleFor(ctx context.Context, request *quotav1alpha1.QuotaRequest, about policies, f *figures) (quotarequest.Rule, error) {
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
		return quotarequest.Rule{}, &policyError{about[len(about)-1].Name, err}
	}
	return combined, nil
}

// firstRule returns the first rule of a policy with a true condition, or nil.
func (r *Reconciler) firstRule(ctx context.Context, request *quotav1alpha1.QuotaRequest, p *quotav1alpha1.QuotaRequestPolicy, f *figures) (*quotarequest.Rule, error) {
	compiled, errs := policy.CompileRequest(p)
	if len(errs) > 0 {
		return nil, &policyError{p.Name, errs.ToAggregate()}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(request)
	if err != nil {
		return nil, fmt.Errorf("convert the request: %w", err)
	}
	asks, err := f.asks()
	if err != nil {
		return nil, err
	}
	in := policy.RequestInput{Request: content, Asks: asks}
	if compiled.UsesConsumer() {
		in.Consumer, err = r.consumer(ctx, request.Spec.ConsumerRef)
		switch {
		case apierrors.IsForbidden(err):
			return nil, &policyError{p.Name, fmt.Errorf("its rules read the consumer, and Bursar may not get %s objects: add that right", request.Spec.ConsumerRef.Kind)}
		case err != nil:
			return nil, err
		}
	}
	i, err := compiled.Rule(ctx, in)
	switch {
	case err != nil:
		return nil, &policyError{p.Name, err}
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

// overCeiling returns a rule against increases beyond a ceiling or a cap, or nil.
func (r *Reconciler) overCeiling(all policies, f *figures, approved []quotav1alpha1.ApprovedIncrease) (*quotarequest.Rule, error) {
	increases, err := increasesOf(approved)
	if err != nil {
		return nil, err
	}

	for i := range all {
		for j := range all[i].Spec.Ceilings {
			ceiling := &all[i].Spec.Ceilings[j]
			d, err := ledger.NewDimensions(ceiling.Dimensions)
			if err != nil {
				return nil, &policyError{all[i].Name, fmt.Errorf("the dimensions of the ceiling for %s: %w", ceiling.ResourceType, err)}
			}
			if text := r.beyond(f, increases, bound{ceiling.ResourceType, d, ledger.Amount(ceiling.Limit), "requests may raise it to"}); text != "" {
				return &quotarequest.Rule{Ref: &quotav1alpha1.RequestPolicyRef{Name: all[i].Name}, Action: quotav1alpha1.ActionDeny, Message: text}, nil
			}
		}
	}

	for i := range f.request.Spec.Requests {
		registration := r.Catalog.Registration(f.request.Spec.Requests[i].ResourceType)
		if registration == nil || registration.MaxPerConsumer == 0 {
			continue
		}
		most := bound{registration.ResourceType, ledger.Dimensions{}, ledger.Amount(registration.MaxPerConsumer), "a consumer may have"}
		if text := r.beyond(f, increases, most); text != "" {
			return &quotarequest.Rule{Action: quotav1alpha1.ActionDeny, Message: text}, nil
		}
	}
	return nil, nil //nolint:nilnil // nothing is in the way
}

// bound is the largest limit of claims with some dimensions.
type bound struct {
	resourceType string
	dimensions   ledger.Dimensions
	most         ledger.Amount
	// allows are the words before the largest limit.
	allows string
}

// beyond returns a message if increases would bring a limit beyond a bound, or "".
func (r *Reconciler) beyond(f *figures, increases []increase, b bound) string {
	more := sum(increases, b.resourceType, func(s ledger.Selector) bool { return s.MayMatch(b.dimensions) })
	limit := f.limitWith(b.resourceType, b.dimensions)
	if more <= max(0, b.most-limit) {
		return ""
	}
	advice := "there is nothing left to ask for"
	if left := b.most - limit; left > 0 {
		advice = fmt.Sprintf("ask for %s more at most", message.AmountOf(r.Catalog, b.resourceType, left))
	}
	name := b.resourceType
	if !b.dimensions.IsZero() {
		name += " (" + message.Dimensions(b.dimensions.Map()) + ")"
	}
	return fmt.Sprintf("the limit of %s is %s, and %s %s at most: %s", name, message.AmountOf(r.Catalog, b.resourceType, limit), b.allows,
		message.AmountOf(r.Catalog, b.resourceType, b.most), advice)
}

// isPolicyError reports whether somebody has to mend a policy before a decision on the request is possible.
func isPolicyError(err error) bool {
	var wrong *policyError
	return errors.As(err, &wrong)
}
