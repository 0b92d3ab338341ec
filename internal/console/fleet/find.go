package fleet

import (
	"cmp"
	"slices"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/usage"
)

const (
	// PageSize is how many rows a page has.
	PageSize = 50
	// IdlePercent is the part of a limit, in percent, below which a grant counts as idle.
	IdlePercent = 5
	// NearPercent is the part of a limit, in percent, from which on a consumer counts as near it.
	NearPercent = quotav1alpha1.AlertThresholdDefault
)

// State selects rows.
type State string

// The states. A row may have several of them.
const (
	// Over: the use exceeds the limit.
	Over State = "over"
	// Near: the use is near the limit, or has reached it.
	Near State = "near"
	// Idle: the consumer has a limit, and hardly uses it.
	Idle State = "idle"
	// Waiting: open requests of the consumer ask for more of the resource type.
	Waiting State = "waiting"
)

// States are all states.
var States = []State{Over, Near, Idle, Waiting}

// Order is an order of rows.
type Order string

// The orders. The zero value is by the used part, the highest first.
const (
	ByUse      Order = ""
	ByLeastUse Order = "least"
	ByConsumer Order = "consumer"
	ByType     Order = "type"
)

// Orders are all orders.
var Orders = []Order{ByUse, ByLeastUse, ByConsumer, ByType}

// Query selects a page of rows. An empty field selects everything.
type Query struct {
	// Text is a part of the name or namespace of a consumer, or KIND/ and a part of the name.
	Text         string
	ResourceType string
	State        State
	// HasNoRoom selects the rows with nothing left.
	HasNoRoom bool
	Order     Order
	// Page counts from 1.
	Page int
}

// Found is a row in the result of a query.
type Found struct {
	*Row
	// Requests is how many open requests of the consumer ask for more of the resource type.
	Requests int

	ratio float64
}

// Level is how close to its limit the consumer is.
func (r *Row) Level() usage.Level { return r.Usage.Level(usage.Below, NearPercent) }

// IsIdle reports whether the consumer has a limit, and hardly uses it.
func (r *Row) IsIdle() bool { return r.Limit > 0 && !r.IsFeature && r.Ratio()*100 < IdlePercent }

// Result is a page of rows.
type Result struct {
	Rows []Found
	// Total is how many rows the query selects, and Page the number of this page, of Pages.
	Total, Page, Pages int
	// Counts has the number of rows for each state, under the other conditions of the query. The entry "" counts the rows
	// in every state.
	Counts map[State]int
	// All is how many rows there are, and Types are their resource types.
	All   int
	Types []string
	// IsCut reports whether the copy omits rows beyond its bound.
	IsCut bool
	// HasRequests reports whether the person may list requests.
	HasRequests bool
}

// Find returns a page of rows.
func (c *Copy) Find(q Query) Result {
	return find(c.quota, c.requests, q)
}

func find(quota *quotaStore, requests *requestStore, q Query) Result {
	result := Result{Counts: map[State]int{}, HasRequests: requests != nil}
	open, matches := requests.counts(), matcher(q.Text)
	resourceTypes := map[string]bool{}
	var found []Found
	result.IsCut = quota.each(func(row *Row) {
		result.All++
		resourceTypes[row.ResourceType] = true
		if q.ResourceType != "" && q.ResourceType != row.ResourceType || !matches(row.Consumer) || q.HasNoRoom && row.Used < row.Limit {
			return
		}
		each := Found{Row: row, Requests: open[row.key()], ratio: row.Ratio()}
		isSelected := q.State == ""
		result.Counts[""]++
		for _, state := range States {
			if each.is(state) {
				result.Counts[state]++
				isSelected = isSelected || state == q.State
			}
		}
		if isSelected {
			found = append(found, each)
		}
	})
	slices.SortFunc(found, q.Order.compare)
	for resourceType := range resourceTypes {
		result.Types = append(result.Types, resourceType)
	}
	slices.Sort(result.Types)
	result.Total = len(found)
	result.Pages = max(1, (len(found)+PageSize-1)/PageSize)
	result.Page = min(max(q.Page, 1), result.Pages)
	begin := (result.Page - 1) * PageSize
	result.Rows = slices.Clone(found[begin:min(begin+PageSize, len(found))])
	return result
}

func (f *Found) is(state State) bool {
	switch state {
	case Over:
		return f.Level() == usage.Exceeded
	case Near:
		return f.Level() == usage.Near || f.Level() == usage.Reached
	case Idle:
		return f.IsIdle()
	default:
		return f.Requests > 0
	}
}

// compare compares two rows. Otherwise equal rows have the order of their consumers.
func (o Order) compare(a, b Found) int {
	first := 0
	switch o {
	case ByLeastUse:
		first = cmp.Or(cmp.Compare(a.ratio, b.ratio), cmp.Compare(b.Limit, a.Limit))
	case ByType:
		first = cmp.Or(strings.Compare(a.ResourceType, b.ResourceType), cmp.Compare(b.ratio, a.ratio))
	case ByConsumer:
	default:
		first = cmp.Compare(b.ratio, a.ratio)
	}
	if first != 0 {
		return first
	}
	if first = strings.Compare(a.Consumer.Name, b.Consumer.Name); first != 0 {
		return first // names mostly differ, and sorting compares often
	}
	x, y := &a.Consumer, &b.Consumer
	return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Kind, y.Kind), strings.Compare(x.APIGroup, y.APIGroup),
		strings.Compare(a.ResourceType, b.ResourceType))
}

// matcher returns a filter of consumers by a text. It ignores case.
func matcher(text string) func(quotav1alpha1.ConsumerRef) bool {
	kind, name, hasKind := strings.Cut(text, "/")
	if !hasKind {
		kind, name = "", text
	}
	name = strings.ToLower(name)
	return func(consumer quotav1alpha1.ConsumerRef) bool {
		switch {
		case text == "":
			return true
		case hasKind && !strings.EqualFold(kind, consumer.Kind):
			return false
		default:
			return strings.Contains(strings.ToLower(consumer.Name), name) || !hasKind && strings.Contains(strings.ToLower(consumer.Namespace), name)
		}
	}
}
