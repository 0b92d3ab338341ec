package preview

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
)

// largestMax is the number of named consumers over their limit.
const largestMax = 3

// Ledgers reads the ledgers of all consumers.
type Ledgers interface {
	// View calls f with the ledger of a consumer.
	View(ctx context.Context, consumer quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error
}

// recount adds up what existing objects would demand by a policy without claims, and what they demand by it now.
type recount struct {
	policy string
	// counted are the objects as they count now. It may be nil.
	counted *inventory.Kind

	objects   int
	consumers map[quotav1alpha1.ConsumerRef]struct{}
	changes   map[quotav1alpha1.ConsumerRef]map[string]ledger.Amount // by resource type
}

func newRecount(policy string, counted *inventory.Kind) *recount {
	return &recount{
		policy: policy, counted: counted,
		consumers: map[quotav1alpha1.ConsumerRef]struct{}{}, changes: map[quotav1alpha1.ConsumerRef]map[string]ledger.Amount{},
	}
}

// add adds an object with its demand by the policy, or nil.
func (r *recount) add(object types.UID, demand *evaluator.Claim) {
	if r.counted != nil {
		for _, d := range r.counted.DemandsOf(object) {
			if d.Policy == r.policy {
				r.change(d.Consumer, d.Charges, -1)
			}
		}
	}
	if demand == nil {
		return
	}
	r.objects++
	r.consumers[demand.Consumer] = struct{}{}
	r.change(demand.Consumer, demand.Charges, 1)
}

func (r *recount) change(consumer quotav1alpha1.ConsumerRef, charges []ledger.Charge, sign ledger.Amount) {
	if r.changes[consumer] == nil {
		r.changes[consumer] = map[string]ledger.Amount{}
	}
	for _, c := range charges {
		r.changes[consumer][c.ResourceType] += sign * c.Amount
	}
}

// excess is the usage of a consumer over its limit.
type excess struct {
	consumer     quotav1alpha1.ConsumerRef
	resourceType string
	used, limit  ledger.Amount
}

// warning says how many objects would count by the policy, and which consumers would be over their limit. It begins
// with among, which says that these are not all objects, or nothing.
func (p *Previewer) warning(ctx context.Context, r *recount, among string) string {
	text := fmt.Sprintf("%s%s of %s would count by this policy",
		among, message.Count(r.objects, "object", "objects"), message.Count(len(r.consumers), "consumer", "consumers"))
	over, err := p.over(ctx, r)
	if err != nil {
		return text + "; whether that is over their limits could not be found out in time"
	}
	if len(over) == 0 {
		return text + ", all within their limits"
	}

	var largest []string
	for _, e := range over[:min(len(over), largestMax)] {
		amount := func(a ledger.Amount) string { return message.AmountOf(p.Evaluator.Catalog, e.resourceType, a) }
		largest = append(largest, fmt.Sprintf("%s with %s of %s", message.Consumer(e.consumer), amount(e.used), amount(e.limit)))
	}
	text += fmt.Sprintf("; %s would be over the limit: %s", message.Count(len(over), "consumer", "consumers"), strings.Join(largest, ", "))
	if more := len(over) - largestMax; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// over returns the largest excess of each consumer over its limit, the largest first.
func (p *Previewer) over(ctx context.Context, r *recount) ([]excess, error) {
	var all []excess
	for consumer := range r.consumers {
		accounts := map[string]ledger.Account{}
		err := p.Ledgers.View(ctx, consumer, func(l *ledger.Ledger) {
			for resourceType := range r.changes[consumer] {
				accounts[resourceType] = l.Account(resourceType)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("read the quota of %s: %w", message.Consumer(consumer), err)
		}

		var largest excess
		for _, resourceType := range slices.Sorted(maps.Keys(accounts)) {
			a := accounts[resourceType]
			used := a.Used + a.Reserved + r.changes[consumer][resourceType]
			if used-a.Limit > largest.used-largest.limit && !p.Evaluator.Catalog.IsCountedOnly(resourceType) {
				largest = excess{consumer, resourceType, used, a.Limit}
			}
		}
		if largest.resourceType != "" {
			all = append(all, largest)
		}
	}
	slices.SortFunc(all, func(a, b excess) int {
		return cmp.Or(cmp.Compare(b.used-b.limit, a.used-a.limit), cmp.Compare(message.Consumer(a.consumer), message.Consumer(b.consumer)))
	})
	return all, nil
}
