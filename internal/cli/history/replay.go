package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/journal"
)

// ReplayOptions are those of [Replay].
type ReplayOptions struct {
	Selection
	// Limits are the limits to test.
	Limits []request.Amount
	Units  Units
}

// Check returns an error for invalid options.
func (o *ReplayOptions) Check() error {
	if len(o.Limits) == 0 {
		return errors.New("name the limits to test: --limit TYPE=N")
	}
	named := map[string]bool{}
	for _, limit := range o.Limits {
		switch {
		case limit.IsIncrease:
			return fmt.Errorf("--limit: %s=+%d is an increase; give the limit to test, such as %[1]s=%[2]d", limit.Type, limit.Value)
		case named[limit.Type]:
			return fmt.Errorf("--limit: there are two limits of %s: give one", limit.Type)
		}
		named[limit.Type] = true
	}
	return o.Selection.Check()
}

// Replayed is the outcome of a replay, in base units.
type Replayed struct {
	// Since is the start of the window.
	Since *time.Time `json:"since,omitempty"`
	// Until is the end of the window.
	Until time.Time `json:"until"`
	Items []Outcome `json:"items"`
	units Units
}

// Outcome is the effect that the limit of one resource type would have had on one consumer.
type Outcome struct {
	ConsumerRef  quotav1alpha1.ConsumerRef `json:"consumerRef"`
	ResourceType string                    `json:"resourceType"`
	// Limit is the limit under test.
	Limit int64 `json:"limit"`
	// Creates counts the admissions with a request for the resource type, and Denied those beyond the limit.
	Creates int `json:"creates"`
	Denied  int `json:"denied"`
	// Unnamed counts the admissions without a known object and claim. The user may not see them.
	Unnamed int `json:"unnamed,omitempty"`
	// First is the first denial.
	First *Denial `json:"first,omitempty"`
	// PeakUsed is the largest use.
	PeakUsed int64 `json:"peakUsed"`
	// Needed is the smallest limit without a denial. It is less than PeakUsed if the peak needed no admission.
	Needed int64 `json:"needed"`
	// Gaps counts the gaps in the journal. After each, the whole use counts, including the objects denied before.
	Gaps int `json:"gaps,omitempty"`

	account account
}

// Denial is an admission beyond a limit under test.
type Denial struct {
	Time      time.Time       `json:"time"`
	Object    *journal.Object `json:"object,omitempty"`
	Claim     string          `json:"claim,omitempty"`
	Actor     string          `json:"actor,omitempty"`
	Requested int64           `json:"requested"`
	// Used is the use before it, under the limits under test.
	Used int64 `json:"used"`
}

// Denied counts all denials.
func (r *Replayed) Denied() int {
	count := 0
	for i := range r.Items {
		count += r.Items[i].Denied
	}
	return count
}

// IsEmpty reports whether there is nothing to print.
func (r *Replayed) IsEmpty() bool { return len(r.Items) == 0 }

// Replay decides the admissions in the window again, under other limits. The use at its start counts. Entries of one
// object, kind and time are one admission: if one resource type lacks quota, the replay denies all of it. A denied
// object uses nothing from then on; an existing one keeps its use. Totals by resource type decide, without dimensions.
func Replay(ctx context.Context, source journal.Source, o ReplayOptions) (*Replayed, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	n, err := newNames(&o.Selection)
	if err != nil {
		return nil, err
	}
	r := &replay{limits: o.Limits, types: map[string]*int64{}, consumers: map[quotav1alpha1.ConsumerRef]*replayed{}}
	query, err := n.query(ctx, source)
	if err != nil {
		return nil, err
	}
	if query.Since = o.Since; !o.Since.IsZero() {
		n.window = " since " + inUTC(o.Since) + n.window
	}
	err = eachEntry(ctx, source, query, func(e *journal.Entry) {
		c := r.consumers[e.Consumer]
		if c == nil {
			c = &replayed{isSelected: n.hasConsumer(e.Consumer), accounts: map[string]*trial{}, denied: map[payer]*excess{}, names: map[payer]payer{}}
			r.consumers[e.Consumer] = c
		}
		if c.isSelected {
			r.add(c, e)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := r.check(n); err != nil {
		return nil, err
	}
	result := &Replayed{Until: o.end(), Items: []Outcome{}, units: o.Units}
	if !o.Since.IsZero() {
		result.Since = &o.Since
	}
	for _, c := range r.consumers {
		c.decide()
		for _, t := range c.accounts {
			result.Items = append(result.Items, t.Outcome)
		}
	}
	slices.SortFunc(result.Items, func(a, b Outcome) int { return compareAccounts(a.account, b.account) })
	return result, nil
}

// replay is a replay under way.
type replay struct {
	limits    []request.Amount
	types     map[string]*int64 // the limit under test of each resource type; nil without one
	consumers map[quotav1alpha1.ConsumerRef]*replayed
}

// limitOf returns the limit under test of a resource type, or nil. A full name comes before a short one.
func (r *replay) limitOf(resourceType string) *int64 {
	limit, isKnown := r.types[resourceType]
	if isKnown {
		return limit
	}
	for i := range r.limits {
		if l := &r.limits[i]; l.Type == resourceType || limit == nil && isNamed(l.Type, resourceType) {
			limit = &l.Value
		}
	}
	r.types[resourceType] = limit
	return limit
}

// check returns an error for unknown and for ambiguous names.
func (r *replay) check(n *names) error {
	if err := n.check(); err != nil {
		return err
	}
	known := map[string]bool{}
	for resourceType := range r.types {
		known[resourceType] = false
	}
	if len(known) == 0 {
		return nil // no creates
	}
	for _, limit := range r.limits {
		known[limit.Type] = known[limit.Type] || r.types[limit.Type] != nil
		if !known[limit.Type] {
			delete(known, limit.Type)
		}
		if err := checkType(limit.Type, known, n.window); err != nil {
			return err
		}
	}
	return nil
}

// add takes the next entry of a consumer.
func (r *replay) add(c *replayed, e *journal.Entry) {
	isGap := c.sequence != 0 && e.Sequence > c.sequence+1 && e.Kind != journal.Opened
	if c.sequence = e.Sequence; isGap {
		c.lose()
	}
	switch e.Kind {
	case journal.LimitChanged:
		return
	case journal.Opened:
		c.decide()
		r.open(c, e)
		return
	}
	limit := r.limitOf(e.ResourceType)
	if limit == nil {
		return
	}
	of := payerOf(e)
	if len(c.pending) > 0 && (of != c.payer || e.Kind != c.pending[0].Kind || !e.Time.Equal(c.pending[0].Time)) {
		c.decide()
	}
	if c.accounts[e.ResourceType] == nil {
		c.begin(account{e.Consumer, e.ResourceType}, *limit, less(e.Used, e.Change))
	}
	c.accounts[e.ResourceType].resume(less(e.Used, e.Change))
	c.payer = of
	c.pending = append(c.pending, *e)
}

// lose follows a gap in the sequence. It leaves unknown which denied objects are still in use, and the amount in use.
func (c *replayed) lose() {
	c.decide()
	clear(c.denied)
	clear(c.names)
	for _, t := range c.accounts {
		t.isUnknown = true
	}
}

// resume continues after a gap with the use before the next entry.
func (t *trial) resume(used int64) {
	if !t.isUnknown {
		return
	}
	if t.isUnknown = false; t.actual != used || t.used != used {
		t.Gaps++
		t.actual, t.used = used, used
		t.PeakUsed = max(t.PeakUsed, used)
	}
}

// open continues after an Opened entry. After a loss of entries, it is unknown which denied objects are still in use.
func (r *replay) open(c *replayed, e *journal.Entry) {
	types := map[string]bool{}
	for resourceType := range c.accounts {
		types[resourceType] = true
	}
	if e.Opening != nil {
		for i := range e.Opening.Balances {
			types[e.Opening.Balances[i].ResourceType] = true
		}
	}
	isGap := e.Opening != nil && e.Opening.Lost > 0
	for _, t := range c.accounts {
		isGap = isGap || t.actual != openedLevel(e.Opening, t.ResourceType).used
	}
	if isGap {
		clear(c.denied)
		clear(c.names)
	}
	for _, resourceType := range slices.Sorted(maps.Keys(types)) {
		limit := r.limitOf(resourceType)
		if limit == nil {
			continue
		}
		used := openedLevel(e.Opening, resourceType).used
		t := c.accounts[resourceType]
		switch {
		case t == nil:
			c.begin(account{e.Consumer, resourceType}, *limit, used)
		case isGap:
			t.Gaps++
			t.actual, t.used = used, used
			t.PeakUsed = max(t.PeakUsed, used)
		}
	}
}

// payer identifies the charged object or claim. It has only one of uid, claim and name.
type payer struct{ uid, claim, name, policy string }

func payerOf(e *journal.Entry) payer {
	switch o := e.Object; {
	case o != nil && o.UID != "":
		return payer{uid: o.UID, policy: e.Policy}
	case e.Claim != "" || o == nil:
		return payer{claim: e.Claim}
	default:
		return payer{name: strings.Join([]string{o.APIGroup, o.Kind, o.Namespace, o.Name}, "/"), policy: e.Policy}
	}
}
