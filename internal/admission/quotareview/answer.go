package quotareview

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
)

// answer returns the status of the review. The first items are its objects.
func (q *question) answer(ctx context.Context, items []*item, objects int) (*quotav1alpha1.QuotaReviewStatus, error) {
	status := &quotav1alpha1.QuotaReviewStatus{}
	for i, it := range items {
		result := quotav1alpha1.ReviewedResult{Result: it.result, Message: it.message, Causes: it.causes}
		if i >= objects {
			status.Requests = append(status.Requests, quotav1alpha1.ReviewedRequestResult{ReviewedResult: result})
			continue
		}
		status.Objects = append(status.Objects, quotav1alpha1.ReviewedObjectResult{
			APIVersion: it.object.Kind.GroupVersion().String(), Kind: it.object.Kind.Kind, Namespace: it.object.Name.Namespace,
			Name: cmp.Or(it.object.Name.Name, it.generateName), Operation: it.operation,
			ReviewedResult: result, Policies: it.policies, Charges: it.charges(),
		})
	}
	status.Result, status.Message = summary(items)
	var err error
	status.Quotas, err = q.quotas(ctx, items)
	return status, err
}

// charges are the differences of all changes, by consumer and account.
func (it *item) charges() []quotav1alpha1.ReviewedCharge {
	return sum([]*item{it})
}

// summary returns the result of the whole, and a sentence.
func summary(items []*item) (quotav1alpha1.ReviewResult, string) {
	count := map[quotav1alpha1.ReviewResult]int{}
	unenforced := 0
	for _, it := range items {
		count[it.result]++
		if it.isUnenforced {
			unenforced++
		}
	}
	switch denied, unknown := count[quotav1alpha1.ReviewResultDoesNotFit], count[quotav1alpha1.ReviewResultUnknown]; {
	case denied > 0:
		return quotav1alpha1.ReviewResultDoesNotFit, fmt.Sprintf("%d of %d would be denied.", denied, len(items))
	case unknown > 0:
		return quotav1alpha1.ReviewResultUnknown, fmt.Sprintf("For %d of %d, it is unknown whether they fit.", unknown, len(items))
	case unenforced > 0:
		return quotav1alpha1.ReviewResultFits, fmt.Sprintf("Everything passes. The mode Enforce would deny %d of %d.", unenforced, len(items))
	default:
		return quotav1alpha1.ReviewResultFits, "Everything fits."
	}
}

// account is a part of a consumer's ledger.
type account struct {
	consumer     quotav1alpha1.ConsumerRef
	resourceType string
	dimensions   ledger.Dimensions
}

func (a account) compare(b account) int {
	return cmp.Or(cmp.Compare(a.consumer.APIGroup, b.consumer.APIGroup), cmp.Compare(a.consumer.Kind, b.consumer.Kind),
		cmp.Compare(a.consumer.Namespace, b.consumer.Namespace), cmp.Compare(a.consumer.Name, b.consumer.Name),
		cmp.Compare(a.resourceType, b.resourceType), cmp.Compare(a.dimensions.String(), b.dimensions.String()))
}

// total is the sum of additions to an account, and of reductions.
type total struct{ more, less ledger.Amount }

// sum returns the totals of all items' changes, in order of the accounts. It leaves out unchanged accounts.
func sum(items []*item) []quotav1alpha1.ReviewedCharge {
	totals := map[account]total{}
	for _, it := range items {
		for i := range it.changes {
			c := &it.changes[i]
			for _, charge := range c.After {
				a := account{c.Consumer, charge.ResourceType, charge.Dimensions}
				totals[a] = total{saturate(totals[a].more, charge.Amount), totals[a].less}
			}
			for _, charge := range c.Before {
				a := account{c.Consumer, charge.ResourceType, charge.Dimensions}
				totals[a] = total{totals[a].more, saturate(totals[a].less, charge.Amount)}
			}
		}
	}
	var charges []quotav1alpha1.ReviewedCharge
	for _, a := range slices.SortedFunc(maps.Keys(totals), account.compare) {
		if t := totals[a]; t.more != t.less {
			charges = append(charges, quotav1alpha1.ReviewedCharge{
				ConsumerRef: a.consumer, ResourceType: a.resourceType, Dimensions: a.dimensions.Map(), Amount: int64(t.more - t.less),
			})
		}
	}
	return charges
}

// saturate returns a + b, or the largest amount if the sum exceeds it.
func saturate(a, b ledger.Amount) ledger.Amount {
	if added, ok := a.Add(b); ok {
		return added
	}
	return ledger.AmountMax
}

// quotas returns the effect of the set on each quota.
func (q *question) quotas(ctx context.Context, items []*item) ([]quotav1alpha1.ReviewedQuota, error) {
	var quotas []quotav1alpha1.ReviewedQuota
	for _, charge := range sum(items) {
		before, after, err := q.forecast.Outcome(ctx, charge.ConsumerRef)
		if err != nil {
			return nil, err
		}
		dimensions, err := ledger.NewDimensions(charge.Dimensions)
		if err != nil {
			return nil, err
		}
		pool := before.Pool(charge.ResourceType, dimensions)
		quota := quotav1alpha1.ReviewedQuota{
			ReviewedCharge: charge, Limit: int64(pool.Limit), Used: int64(pool.Used),
			Available: int64(pool.Available), AvailableAfter: int64(after.Available(charge.ResourceType, dimensions)),
		}
		quota.Display = q.display(&quota)
		quotas = append(quotas, quota)
	}
	return quotas, nil
}

func (q *question) display(quota *quotav1alpha1.ReviewedQuota) quotav1alpha1.DisplayedReview {
	text := func(amount int64) string {
		return message.AmountOf(q.Catalog, quota.ResourceType, ledger.Amount(amount))
	}
	sign, amount := "+", quota.Amount
	if amount < 0 {
		sign, amount = "-", -amount
	}
	return quotav1alpha1.DisplayedReview{
		Amount: sign + text(amount), Limit: text(quota.Limit), Used: text(quota.Used),
		Available: text(quota.Available), AvailableAfter: text(quota.AvailableAfter),
	}
}
