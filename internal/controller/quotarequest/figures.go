package quotarequest

import (
	"context"
	"fmt"
	"maps"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/forecast"
	"github.com/bursar/bursar/internal/policy"
	"github.com/bursar/bursar/internal/quotarequest"
)

// promises are increases by the name of the future grant.
type promises map[string][]quotav1alpha1.ApprovedIncrease

// figures has the figures of a request: the ledger of its consumer, the promises to the consumer without a grant in the
// ledger, and the increases by the request itself.
type figures struct {
	request   *quotav1alpha1.QuotaRequest
	ledger    *ledger.Ledger
	promised  []increase
	requested []increase
	totals    Totals
}

// increase is an amount for the claims of a selector, as an allowance of a grant would be.
type increase struct {
	resourceType string
	selector     ledger.Selector
	amount       ledger.Amount
}

// figuresFor returns the present figures for a request, with the promises to its consumer.
func (r *Reconciler) figuresFor(ctx context.Context, request *quotav1alpha1.QuotaRequest, promised promises) (*figures, error) {
	f := &figures{request: request, totals: r.Totals}

	var copyErr error
	err := r.Ledgers.View(ctx, request.Spec.ConsumerRef, func(l *ledger.Ledger) { f.ledger, copyErr = forecast.Copy(l) })
	if err == nil {
		err = copyErr
	}
	if err != nil {
		return nil, fmt.Errorf("read the quota of %s: %w", message.Consumer(request.Spec.ConsumerRef), err)
	}

	for _, left := range promised.ungranted(f.ledger, request.Namespace) {
		more, err := increasesOf(left)
		if err != nil {
			return nil, err
		}
		f.promised = append(f.promised, more...)
	}
	if f.requested, err = increasesOf(f.requestedIncreases()); err != nil {
		return nil, err
	}
	return f, nil
}

// ungranted returns the promises without a grant in a ledger.
func (p promises) ungranted(l *ledger.Ledger, namespace string) promises {
	left := maps.Clone(p)
	for grant := range l.Grants() {
		if grant.Namespace == namespace {
			delete(left, grant.Name)
		}
	}
	return left
}

// increasesOf returns approved increases with the selectors of their grants.
func increasesOf(approved []quotav1alpha1.ApprovedIncrease) ([]increase, error) {
	increases := make([]increase, 0, len(approved))
	for i := range approved {
		a := &approved[i]
		var requirements []ledger.Requirement
		for key, value := range a.Dimensions {
			requirements = append(requirements, ledger.Requirement{Key: key, Operator: ledger.In, Values: []string{value}})
		}
		selector, err := ledger.NewSelector(requirements...)
		if err != nil {
			return nil, fmt.Errorf("the dimensions of %s: %w", a.ResourceType, err)
		}
		increases = append(increases, increase{a.ResourceType, selector, ledger.Amount(a.Increase)})
	}
	return increases, nil
}

// sum adds up the increases of a resource type with selected dimensions.
func sum(increases []increase, resourceType string, isSelected func(ledger.Selector) bool) ledger.Amount {
	var all ledger.Amount
	for _, i := range increases {
		if i.resourceType == resourceType && isSelected(i.selector) {
			all = all.AddUpTo(i.amount)
		}
	}
	return all
}

// limitWith returns the largest limit of a claim with some dimensions, with the promises.
func (f *figures) limitWith(resourceType string, d ledger.Dimensions) ledger.Amount {
	promised := sum(f.promised, resourceType, func(s ledger.Selector) bool { return s.MayMatch(d) })
	return f.ledger.LimitWith(resourceType, d).AddUpTo(promised)
}

// limits returns the limits of whole resource types.
func (f *figures) limits() quotarequest.Limits {
	limits := quotarequest.Limits{}
	for i := range f.request.Spec.Requests {
		resourceType := f.request.Spec.Requests[i].ResourceType
		limits[resourceType] = int64(f.limitWith(resourceType, ledger.Dimensions{}))
	}
	return limits
}

// requestedIncreases returns the increases of a new request, in the form of an approval.
func (f *figures) requestedIncreases() []quotav1alpha1.ApprovedIncrease {
	var increases []quotav1alpha1.ApprovedIncrease
	for i := range f.request.Spec.Requests {
		asked := &f.request.Spec.Requests[i]
		amount := ledger.Amount(quotarequest.AmountOf(asked))
		if asked.Limit != nil {
			amount = max(0, amount-f.limitWith(asked.ResourceType, ledger.Dimensions{}))
		}
		increases = append(increases, quotav1alpha1.ApprovedIncrease{ResourceType: asked.ResourceType, Dimensions: asked.Dimensions, Increase: int64(amount)})
	}
	return increases
}

// asks returns the requested amounts as policies see them, with the figures of their dimensions. Each figure errs
// against the requester. The limit and the total are of the quota that all claims with the dimensions may use. The
// increase and the wanted limit are the largest that a claim with them gets.
func (f *figures) asks() ([]policy.Ask, error) {
	asks := make([]policy.Ask, len(f.request.Spec.Requests))
	for i := range f.request.Spec.Requests {
		asked := &f.request.Spec.Requests[i]
		d, err := ledger.NewDimensions(asked.Dimensions)
		if err != nil {
			return nil, fmt.Errorf("the dimensions of %s: %w", asked.ResourceType, err)
		}

		pool := f.ledger.PoolOfAll(asked.ResourceType, d)
		promised := sum(f.promised, asked.ResourceType, func(s ledger.Selector) bool { return s.Covers(d) })
		more := sum(f.requested, asked.ResourceType, func(s ledger.Selector) bool { return s.MayMatch(d) })
		asks[i] = policy.Ask{
			ResourceType: asked.ResourceType, Dimensions: asked.Dimensions,
			Increase: int64(more), Limit: int64(pool.Limit.AddUpTo(promised)), Wanted: int64(f.limitWith(asked.ResourceType, d).AddUpTo(more)),
			Used: int64(pool.Used), Available: int64(pool.Available), Total: int64(f.totals.Total(asked.ResourceType, d)),
		}
	}
	return asks, nil
}
