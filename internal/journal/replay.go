package journal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Replay adds up the entries of consumers: the limits, and the use. It returns an error for entries at odds with the
// ones before them. The zero value is ready to use. It is not safe for concurrent use.
type Replay struct {
	// Partial accepts consumers whose first entry is neither an Opened one nor number 1: somebody deleted their older
	// entries, or the query left them out. Used and limit of a type then count from its first entry, and a gap in the
	// sequence is no error. A query by type needs it too.
	Partial bool

	consumers map[quotav1alpha1.ConsumerRef]*replayed
}

// replayed is the state of one consumer after its last entry.
type replayed struct {
	sequence int64
	last     Kind
	totals   map[string]*total
	limits   map[limitKey]int64
	balances map[balanceKey]Balance
}

// total is the use and the limit of one resource type.
type total struct{ used, limit int64 }

type limitKey struct{ resourceType, grant string }

type balanceKey struct{ resourceType, dimensions string }

// Add adds the next entry of a consumer. After an error the state of the consumer is no longer valid.
func (r *Replay) Add(e Entry) error {
	if r.consumers == nil {
		r.consumers = map[quotav1alpha1.ConsumerRef]*replayed{}
	}
	state := r.consumers[e.Consumer]
	if state == nil {
		state = &replayed{}
		state.clear()
		r.consumers[e.Consumer] = state
	}
	if err := state.add(&e, r.Partial); err != nil {
		return fmt.Errorf("replay entry %d (%s) of %s %s: %w", e.Sequence, e.Kind, e.Consumer.Kind, e.Consumer.Name, err)
	}
	state.sequence, state.last = e.Sequence, e.Kind
	return nil
}

// Consumers returns the consumers with entries, in no particular order.
func (r *Replay) Consumers() []quotav1alpha1.ConsumerRef {
	return slices.Collect(maps.Keys(r.consumers))
}

// Sequence returns the number of the last entry of a consumer, or 0.
func (r *Replay) Sequence(consumer quotav1alpha1.ConsumerRef) int64 {
	if state := r.consumers[consumer]; state != nil {
		return state.sequence
	}
	return 0
}

// State returns the positive limits and balances of a consumer, sorted by type, grant and dimensions. With Partial they
// are those since the first entry, and Totals has the sums.
func (r *Replay) State(consumer quotav1alpha1.ConsumerRef) Opening {
	var opening Opening
	state := r.consumers[consumer]
	if state == nil {
		return opening
	}
	for key, amount := range state.limits {
		if amount > 0 {
			opening.Limits = append(opening.Limits, Limit{ResourceType: key.resourceType, Grant: key.grant, Amount: amount})
		}
	}
	for _, balance := range state.balances {
		if balance.Amount > 0 {
			opening.Balances = append(opening.Balances, balance)
		}
	}
	opening.Sort()
	return opening
}

// Totals returns the use and the limit of a resource type of a consumer, over all dimensions and grants.
func (r *Replay) Totals(consumer quotav1alpha1.ConsumerRef, resourceType string) (used, limit int64) {
	if state := r.consumers[consumer]; state != nil && state.totals[resourceType] != nil {
		return state.totals[resourceType].used, state.totals[resourceType].limit
	}
	return 0, 0
}

// Sort orders limits and balances as [Replay.State] does, such that equal states are equal values.
func (o *Opening) Sort() {
	slices.SortFunc(o.Limits, func(a, b Limit) int {
		if byType := strings.Compare(a.ResourceType, b.ResourceType); byType != 0 {
			return byType
		}
		return strings.Compare(a.Grant, b.Grant)
	})
	slices.SortFunc(o.Balances, func(a, b Balance) int {
		if byType := strings.Compare(a.ResourceType, b.ResourceType); byType != 0 {
			return byType
		}
		return strings.Compare(dimensionsKey(a.Dimensions), dimensionsKey(b.Dimensions))
	})
}

func (s *replayed) clear() {
	s.totals, s.limits, s.balances = map[string]*total{}, map[limitKey]int64{}, map[balanceKey]Balance{}
}

func (s *replayed) add(e *Entry, partial bool) error {
	if err := s.checkSequence(e, partial); err != nil {
		return err
	}
	if e.Kind == Opened {
		return s.open(e.Opening)
	}
	sums := s.totals[e.ResourceType]
	if sums == nil {
		sums = &total{}
		if partial {
			sums.used, sums.limit = e.Used, e.Limit
			if e.Kind == LimitChanged {
				sums.limit -= e.Change
			} else {
				sums.used -= e.Change
			}
		}
		s.totals[e.ResourceType] = sums
	}
	if err := s.change(e, sums, partial); err != nil {
		return err
	}
	if sums.used != e.Used || sums.limit != e.Limit {
		return fmt.Errorf("the entries before it and its change of %d add up to a use of %d and a limit of %d for %s, but it has %d and %d",
			e.Change, sums.used, sums.limit, e.ResourceType, e.Used, e.Limit)
	}
	return nil
}

// checkSequence returns an error unless the entry is the next one.
func (s *replayed) checkSequence(e *Entry, partial bool) error {
	if e.Sequence <= s.sequence {
		return fmt.Errorf("it comes after entry %d", s.sequence)
	}
	next := e.Sequence == s.sequence+1
	if next || partial || e.Kind == Opened || s.last == Opened {
		return nil
	}
	if s.sequence == 0 {
		return errors.New("it is the consumer's first entry here, and neither number 1 nor an opened entry: older entries are missing")
	}
	return fmt.Errorf("the entry before it is number %d, and no opened entry explains the gap", s.sequence)
}

// open sets the state to the opening of an Opened entry.
func (s *replayed) open(opening *Opening) error {
	if opening == nil {
		return errors.New("it has no opening")
	}
	s.clear()
	for _, limit := range opening.Limits {
		s.limits[limitKey{limit.ResourceType, limit.Grant}] += limit.Amount
		s.typed(limit.ResourceType).limit += limit.Amount
	}
	for _, balance := range opening.Balances {
		s.charge(balance.ResourceType, balance.Dimensions, balance.Amount)
		s.typed(balance.ResourceType).used += balance.Amount
	}
	return nil
}

func (s *replayed) typed(resourceType string) *total {
	if s.totals[resourceType] == nil {
		s.totals[resourceType] = &total{}
	}
	return s.totals[resourceType]
}

// change adds the change of an entry to its limit or balance.
func (s *replayed) change(e *Entry, sums *total, partial bool) error {
	if e.Kind == LimitChanged {
		key := limitKey{e.ResourceType, e.Grant}
		s.limits[key] += e.Change
		sums.limit += e.Change
		if s.limits[key] < 0 && !partial {
			return fmt.Errorf("it leaves a limit of %d for %s from grant %q", s.limits[key], e.ResourceType, e.Grant)
		}
		return nil
	}
	amount := s.charge(e.ResourceType, e.Dimensions, e.Change)
	sums.used += e.Change
	if amount < 0 && !partial {
		return fmt.Errorf("it leaves a use of %d for %s with the dimensions %v", amount, e.ResourceType, e.Dimensions)
	}
	return nil
}

// charge adds to a balance and returns it.
func (s *replayed) charge(resourceType string, dimensions map[string]string, amount int64) int64 {
	key := balanceKey{resourceType, dimensionsKey(dimensions)}
	amount += s.balances[key].Amount
	if amount == 0 {
		delete(s.balances, key)
		return 0
	}
	s.balances[key] = Balance{ResourceType: resourceType, Dimensions: dimensions, Amount: amount}
	return amount
}

// dimensionsKey returns the same string for equal dimensions.
func dimensionsKey(dimensions map[string]string) string {
	if len(dimensions) == 0 {
		return ""
	}
	var key []byte
	for _, name := range slices.Sorted(maps.Keys(dimensions)) {
		key = append(strconv.AppendQuote(append(strconv.AppendQuote(key, name), '='), dimensions[name]), ',')
	}
	return string(key)
}
