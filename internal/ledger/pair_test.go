package ledger_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/model"
)

// reporter has the common methods of *testing.T and *rapid.T.
type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}

// source makes choices: rapid draws them, a fuzz target reads them from its input.
type source interface {
	// choose returns 0 to n-1.
	choose(what string, n int) int
}

// pair applies every operation to a ledger and to the model and fails on the first difference.
type pair struct {
	t      reporter
	ledger *ledger.Ledger
	model  *model.Model
}

func newPair(t reporter) *pair {
	p := &pair{t: t, ledger: ledger.New(), model: model.New()}
	p.ledger.SetTypes(features{})
	p.model.Types = features{}
	return p
}

func dimensionsOf(pairs ...string) ledger.Dimensions {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	d, err := ledger.NewDimensions(m)
	if err != nil {
		panic(err)
	}
	return d
}

func selectorOf(requirements ...ledger.Requirement) ledger.Selector {
	s, err := ledger.NewSelector(requirements...)
	if err != nil {
		panic(err)
	}
	return s
}

func in(key string, values ...string) ledger.Requirement {
	return ledger.Requirement{Key: key, Operator: ledger.In, Values: values}
}

// Few values of everything, to make operations meet.
var (
	enforcedTypes  = []string{"gpu", "cpu"}
	someTypes      = append(slices.Clone(enforcedTypes), "feature")
	someKeys       = []string{"k1", "k2", "k3", "k4", "k5", "k6", ""}
	someDimensions = []ledger.Dimensions{
		{},
		dimensionsOf("region", "eu"),
		dimensionsOf("region", "us"),
		dimensionsOf("tier", "gold"),
		dimensionsOf("region", "eu", "tier", "gold"),
		dimensionsOf("region", "us", "tier", "spot"),
	}
	someSelectors = []ledger.Selector{
		{},
		selectorOf(in("region", "eu")),
		selectorOf(in("region", "eu", "us")),
		selectorOf(ledger.Requirement{Key: "tier", Operator: ledger.Exists}),
		selectorOf(ledger.Requirement{Key: "tier", Operator: ledger.NotIn, Values: []string{"spot"}}),
	}
)

func pick[T any](s source, what string, from []T) T { return from[s.choose(what, len(from))] }

// pickAmount returns mostly small amounts, and around the largest ones if huge is set.
func pickAmount(s source, huge bool) ledger.Amount {
	amount := ledger.Amount(s.choose("amount", 9))
	if !huge {
		return amount
	}
	return []ledger.Amount{amount, math.MaxInt64 - amount, math.MaxInt64/2 - 4 + amount, math.MaxInt64/4 + amount}[s.choose("magnitude", 4)]
}

func pickCharges(s source, huge bool) []ledger.Charge {
	charges := make([]ledger.Charge, s.choose("charges", 4))
	for i := range charges {
		charges[i] = ledger.Charge{ResourceType: pick(s, "type", someTypes), Dimensions: pick(s, "dimensions", someDimensions), Amount: pickAmount(s, huge)}
	}
	return charges
}

func pickReservation(s source, huge bool) ledger.Reservation {
	return ledger.Reservation{Key: pick(s, "key", someKeys), ReservedAt: 7, Claim: "payload", Charges: pickCharges(s, huge)}
}

func pickObservation(s source, huge bool) ledger.Observation {
	o := ledger.Observation{Kind: pick(s, "kind", someObservedKinds), Basis: ledger.Basis{Objects: ledger.Version(s.choose("version", 6))}}
	for range s.choose("demands", 4) {
		o.Demands = append(o.Demands, ledger.Demand{
			ResourceType: pick(s, "type", someTypes), Dimensions: pick(s, "dimensions", someDimensions),
			Amount: pickAmount(s, huge) - 1, Objects: int64(s.choose("objects", 4)),
		})
	}
	return o
}

func pickGrant(s source, huge bool) ledger.Grant {
	g := ledger.Grant{UID: pick(s, "uid", []string{"g1", "g2", "g3"}), Name: "grant", Generation: int64(s.choose("generation", 2))}
	for range s.choose("allowances", 5) {
		g.Allowances = append(g.Allowances, ledger.Allowance{
			ResourceType: pick(s, "type", someTypes), Selector: pick(s, "selector", someSelectors), Amount: pickAmount(s, huge)})
	}
	return g
}

// operations are the choices of step, Reserve twice as often. Each returns whether the ledger
// may have changed.
var operations = []struct {
	name string
	run  func(p *pair, s source, huge bool) (mayChange bool)
}{
	{"Reserve", func(p *pair, s source, huge bool) bool { return p.reserve(pickReservation(s, huge)) }},
	{"Reserve", func(p *pair, s source, huge bool) bool { return p.reserve(pickReservation(s, huge)) }},
	{"ReserveOverdraft", func(p *pair, s source, huge bool) bool { return p.reserveOverdraft(pickReservation(s, huge)) }},
	{"Check", func(p *pair, s source, huge bool) bool { return p.check(pickCharges(s, huge)) }},
	{"Cancel", func(p *pair, s source, _ bool) bool {
		key, sequence := pick(s, "key", someKeys), p.pickSequence(s)
		return p.same("Cancel", p.ledger.Cancel(key, sequence), p.model.Cancel(key, sequence))
	}},
	{"Observe", func(p *pair, s source, huge bool) bool { return p.observe(pickObservation(s, huge)) }},
	{"Observe", func(p *pair, s source, huge bool) bool { return p.observe(pickObservation(s, huge)) }},
	{"Renew", func(p *pair, s source, _ bool) bool {
		key, sequence := pick(s, "key", someKeys), p.pickSequence(s)
		renewed, ok := p.ledger.Renew(key, sequence)
		wantRenewed, wantOK := p.model.Renew(key, sequence)
		p.same("Renew to", renewed, wantRenewed)
		return p.same("Renew", ok, wantOK)
	}},
	{"SetGrant", func(p *pair, s source, huge bool) bool { return p.setGrant(pickGrant(s, huge)) }},
	{"ReplaceGrants", func(p *pair, s source, huge bool) bool {
		var grants []ledger.Grant
		for range s.choose("grants", 3) {
			grants = append(grants, pickGrant(s, huge))
		}
		return p.replaceGrants(grants)
	}},
	{"RemoveGrant", func(p *pair, s source, _ bool) bool {
		uid := pick(s, "uid", []string{"g1", "g2", "g3"})
		return p.same("RemoveGrant", p.ledger.RemoveGrant(uid), p.model.RemoveGrant(uid))
	}},
	{"reload", func(p *pair, _ source, _ bool) bool { p.reload(); return false }},
}

// step runs one operation. It requires equal snapshots of both, and no change where nothing may change.
func (p *pair) step(s source, huge bool) {
	p.t.Helper()
	before := p.encodedSnapshot()
	if s.choose("trial", 4) == 0 {
		p.discard(s, huge)
		if after := p.encodedSnapshot(); !bytes.Equal(before, after) {
			p.t.Fatalf("a discarded trial changed the ledger from\n%s to\n%s", before, after)
		}
		p.compare()
	}

	operation := pick(s, "operation", operations)
	mayChange := operation.run(p, s, huge)
	if after := p.encodedSnapshot(); !mayChange && !bytes.Equal(before, after) {
		p.t.Fatalf("%s was denied but changed the ledger from\n%s to\n%s", operation.name, before, after)
	}
	p.compare()
}

// discard runs some operations in a trial and discards it, perhaps with another trial within that is kept.
func (p *pair) discard(s source, huge bool) {
	p.t.Helper()
	changing := operations[:len(operations)-1] // all but reload: a trial is of one ledger
	before := p.model
	trial := p.ledger.Begin()
	p.model = p.model.Clone()

	for range s.choose("operations", 3) {
		pick(s, "operation", changing).run(p, s, huge)
	}
	if s.choose("within", 2) == 0 {
		within := p.ledger.Begin()
		pick(s, "operation", changing).run(p, s, huge)
		within.Keep()
	}
	p.compare()

	trial.Discard()
	p.model = before
}

func (p *pair) reserve(r ledger.Reservation) bool {
	p.t.Helper()
	_, known := p.ledger.Reservation(r.Key)
	checked := p.ledger.Check(r.Charges)
	d := p.ledger.Reserve(r)
	p.same("Reserve", d, p.model.Reserve(r))
	if !known && d.Code != ledger.KeyInvalid {
		checked.Sequence = d.Sequence
		p.same("Check before Reserve", checked, d)
	}
	p.replayed(r, d)
	return d.Code == ledger.Admitted && !d.Existing
}

func (p *pair) reserveOverdraft(r ledger.Reservation) bool {
	p.t.Helper()
	d := p.ledger.ReserveOverdraft(r)
	p.same("ReserveOverdraft", d, p.model.ReserveOverdraft(r))
	p.replayed(r, d)
	return d.Code == ledger.Admitted && !d.Existing
}

// replayed reserves an admitted reservation again. The repetition must change nothing.
func (p *pair) replayed(r ledger.Reservation, d ledger.Decision) {
	p.t.Helper()
	if d.Code != ledger.Admitted {
		return
	}
	before := p.encodedSnapshot()
	want := ledger.Decision{Code: ledger.Admitted, Sequence: d.Sequence, Existing: true}
	p.same("Reserve again", p.ledger.Reserve(r), want)
	p.same("Adopt again", p.ledger.ReserveOverdraft(r), want)
	p.same("ledger after reserving again", string(p.encodedSnapshot()), string(before))
}

func (p *pair) check(charges []ledger.Charge) bool {
	p.t.Helper()
	p.same("Check", p.ledger.Check(charges), p.model.Check(charges))
	return false
}

// use has the ledger observe a demand, beside that of other resource types and dimensions. Without an amount, nothing
// demands it any more.
func use(t reporter, l *ledger.Ledger, resourceType string, d ledger.Dimensions, amount ledger.Amount) {
	t.Helper()
	o := l.Observation("things")
	o.Kind = "things"
	o.Basis.Objects++
	o.Demands = slices.DeleteFunc(slices.Clone(o.Demands), func(known ledger.Demand) bool {
		return known.ResourceType == resourceType && known.Dimensions == d
	})
	if amount > 0 {
		o.Demands = append(o.Demands, ledger.Demand{ResourceType: resourceType, Dimensions: d, Amount: amount, Objects: 1})
	}
	if _, err := l.Observe(o, seen(ledger.Visibility{})); err != nil {
		t.Fatalf("observe: %v", err)
	}
}

// observe observes demand beside pending requests that it does not decide.
func (p *pair) observe(o ledger.Observation) bool {
	p.t.Helper()
	before := p.ledger.Observation(o.Kind)
	uptake, err := p.ledger.Observe(o, seen(ledger.Visibility{}))
	changed, wantErr := p.model.Observe(o)
	p.same("Observe", fmt.Sprint(uptake.HasChanged, err != nil), fmt.Sprint(changed, wantErr != nil))
	return err == nil && o.Basis.Covers(before.Basis) // it may rest on a later version
}

func (p *pair) setGrant(g ledger.Grant) bool {
	p.t.Helper()
	changed, err := p.ledger.SetGrant(g)
	wantChanged, wantErr := p.model.SetGrant(g)
	p.same("SetGrant", fmt.Sprint(changed, err != nil), fmt.Sprint(wantChanged, wantErr != nil))
	if again, _ := p.ledger.SetGrant(g); again {
		p.t.Fatalf("SetGrant of the same grant changed something: %+v", g)
	}
	return changed
}

func (p *pair) replaceGrants(grants []ledger.Grant) bool {
	p.t.Helper()
	changed, err := p.ledger.ReplaceGrants(grants)
	wantChanged, wantErr := p.model.ReplaceGrants(grants)
	p.same("ReplaceGrants", fmt.Sprint(changed, err != nil), fmt.Sprint(wantChanged, wantErr != nil))
	return changed
}

// reload goes on with a ledger made from the ledger.
func (p *pair) reload() {
	p.t.Helper()
	reloaded, err := ledger.Restore(p.ledger.Snapshot())
	if err != nil {
		p.t.Fatalf("Restore of its own snapshot: %v", err)
	}
	reloaded.SetTypes(features{})
	p.ledger = reloaded
}

// pickSequence returns any, the latest, or the one before.
func (p *pair) pickSequence(s source) int64 {
	return pick(s, "sequence", []int64{0, p.ledger.Sequence(), max(0, p.ledger.Sequence()-1)})
}

// compare requires both to look the same from outside.
func (p *pair) compare() {
	p.t.Helper()
	snapshot := p.ledger.Snapshot()
	withoutJournal := snapshot
	withoutJournal.Journal = nil // the model has none
	p.same("Snapshot", withoutJournal, p.model.Snapshot())
	p.same("ResourceTypes", p.ledger.ResourceTypes(), p.model.ResourceTypes())
	for _, resourceType := range someTypes {
		p.same("Account of "+resourceType, p.ledger.Account(resourceType), p.model.Account(resourceType))
		for _, d := range someDimensions {
			what := "Available of " + resourceType + " " + d.String()
			p.same(what, p.ledger.Available(resourceType, d), p.model.Available(resourceType, d))
		}
	}
	if err := p.ledger.CheckFlows(); err != nil {
		p.t.Fatalf("the flows are wrong: %v", err)
	}
	reloaded, err := ledger.Restore(snapshot)
	if err != nil {
		p.t.Fatalf("Restore of its own snapshot: %v", err)
	}
	p.same("Bytes", p.ledger.Bytes(), reloaded.Bytes())
	p.same("Snapshot of Restore", reloaded.Snapshot(), snapshot)
}

// same fails unless both are equal, and reports whether they are true.
func (p *pair) same(what string, got, want any) bool {
	p.t.Helper()
	if difference := cmp.Diff(want, got, comparable...); difference != "" {
		p.t.Fatalf("%s differs (-want +got):\n%s", what, difference)
	}
	return got == true
}

var comparable = []cmp.Option{cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(ledger.Record{}), cmpopts.EquateComparable(ledger.Dimensions{}, ledger.Selector{})}

func (p *pair) encodedSnapshot() []byte { return encode(p.t, p.ledger.Snapshot()) }

func encode(t reporter, snapshot ledger.Snapshot) []byte {
	t.Helper()
	encoded, err := json.Marshal(snapshot)
	if err != nil {
		t.Fatalf("encode the snapshot: %v", err)
	}
	return encoded
}
