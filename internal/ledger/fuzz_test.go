package ledger_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
)

// script makes choices from bytes, and always the first when they have run out.
type script struct{ rest []byte }

func (s *script) choose(_ string, n int) int {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return int(b) % n
}

// FuzzOperations runs the operations in the input, with small or huge amounts, on the ledger and on the model.
func FuzzOperations(f *testing.F) {
	f.Add(false, []byte{})
	f.Add(false, []byte("grant, reserve, observe, observe less; cancel and reserve again until nothing fits any more"))
	f.Add(true, []byte{9, 0, 1, 2, 0, 0, 1, 0, 1, 3, 2, 0, 0, 1, 0, 1, 8, 1, 2, 1, 1, 0, 2, 7, 3, 5, 0, 0})
	f.Fuzz(func(t *testing.T, huge bool, input []byte) {
		p, s := newPair(t), &script{rest: input}
		for range 60 {
			if len(s.rest) == 0 {
				break
			}
			p.step(s, huge)
		}
	})
}

// FuzzRestore restores snapshots of any kind. Restore must accept exactly the consistent ones, and
// come out as they went in but for order.
func FuzzRestore(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2, 0, 0, 0, 2, 0, 1, 5, 1, 2, 3, 1, 1, 0, 0, 0, 1, 1, 2, 0, 3, 1, 2, 0, 1, 1, 0, 1, 3, 2, 0, 1, 9})
	f.Fuzz(func(t *testing.T, input []byte) {
		snapshot := pickSnapshot(&script{rest: input})
		l, err := ledger.Restore(snapshot)
		if isConsistent := isConsistentSnapshot(snapshot); isConsistent != (err == nil) {
			t.Fatalf("sound is %t, but Restore says %v:\n%s", isConsistent, err, encode(t, snapshot))
		}
		if err != nil {
			return
		}
		again, err := ledger.Restore(l.Snapshot())
		if err != nil {
			t.Fatalf("Restore of its own snapshot: %v", err)
		}
		p := &pair{t: t, ledger: l}
		p.same("Snapshot", again.Snapshot(), l.Snapshot())
		p.same("counts", []int{l.ReservationCount(), len(l.Snapshot().Grants), len(l.Snapshot().Observations)},
			[]int{len(snapshot.Reservations), len(snapshot.Grants), len(snapshot.Observations)})
		for _, resourceType := range l.ResourceTypes() {
			for _, d := range someDimensions {
				l.Available(resourceType, d)
			}
		}
		if err := l.CheckFlows(); err != nil {
			t.Fatalf("the flows are wrong: %v", err)
		}
	})
}

func pickSnapshot(s *script) ledger.Snapshot {
	types := append([]string{""}, someTypes...)
	amounts := []ledger.Amount{1, 2, 0, 5, -1, math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2, math.MinInt64}
	counts := []int64{1, 2, 3, 0, 4, -1, 1 << 61, ledger.CountMax, ledger.CountMax + 1, math.MinInt64}
	var b ledger.Snapshot
	for range s.choose("grants", 4) {
		g := ledger.Grant{UID: pick(s, "uid", []string{"a", "b", "c", ""})}
		for range s.choose("allowances", 4) {
			g.Allowances = append(g.Allowances, ledger.Allowance{ResourceType: pick(s, "type", types), Selector: pick(s, "selector", someSelectors), Amount: pick(s, "amount", amounts)})
		}
		b.Grants = append(b.Grants, g)
	}
	for range s.choose("reservations", 5) {
		r := ledger.Reservation{Key: pick(s, "key", someKeys), Sequence: pick(s, "sequence", counts)}
		for range s.choose("charges", 4) {
			r.Charges = append(r.Charges, ledger.Charge{ResourceType: pick(s, "type", types), Dimensions: pick(s, "dimensions", someDimensions), Amount: pick(s, "amount", amounts)})
		}
		b.Reservations = append(b.Reservations, r)
	}
	b.Sequence = pick(s, "sequence", counts)
	for range s.choose("observations", 3) {
		o := ledger.Observation{Kind: pick(s, "kind", someObservedKinds), Basis: ledger.Basis{Objects: ledger.Version(s.choose("version", 9))}}
		for range s.choose("demands", 4) {
			o.Demands = append(o.Demands, ledger.Demand{ResourceType: pick(s, "type", types), Dimensions: pick(s, "dimensions", someDimensions), Amount: pick(s, "amount", amounts), Objects: pick(s, "objects", counts)})
		}
		b.Observations = append(b.Observations, o)
	}
	for i := range b.Reservations {
		if r := &b.Reservations[i]; s.choose("awaits", 2) == 1 {
			r.Awaits = &ledger.Awaited{Kind: pick(s, "kind", someObservedKinds), ID: pick(s, "object", []string{"o", "p", ""})}
		}
	}
	return b
}

var someObservedKinds = []string{"pods", "jobs", ""}

// soundness collects the errors of a snapshot.
type soundness struct {
	unsound bool
	seen    map[any]bool
	sums    map[string]*big.Int
}

func (s *soundness) require(ok bool) { s.unsound = s.unsound || !ok }

// once requires a new entry.
func (s *soundness) once(identity ...any) {
	key := [4]any{}
	copy(key[:], identity)
	s.require(!s.seen[key])
	s.seen[key] = true
}

// sum requires the sum of the amounts of a name to fit 63 bits, and each amount to be at least least.
func (s *soundness) sum(name, resourceType string, least, amount int64) {
	s.require(resourceType != "" && amount >= least)
	name += " " + resourceType
	if s.sums[name] == nil {
		s.sums[name] = new(big.Int)
	}
	s.require(s.sums[name].Add(s.sums[name], big.NewInt(amount)).IsInt64())
}

func (s *soundness) observations(observations []ledger.Observation) {
	for _, o := range observations {
		s.require(o.Kind != "")
		s.once("observation", o.Kind)
		for _, d := range o.Demands {
			s.once(o.Kind, d.ResourceType, d.Dimensions)
			s.sum("demand", d.ResourceType, 0, int64(d.Amount))
			s.sum("objects", d.ResourceType, 1, d.Objects)
			s.require(d.Objects <= ledger.CountMax)
			s.require(s.sums["objects "+d.ResourceType].Cmp(big.NewInt(ledger.CountMax)) <= 0)
		}
	}
}

// isConsistentSnapshot reports whether a ledger can have written a snapshot.
func isConsistentSnapshot(b ledger.Snapshot) bool {
	s := &soundness{seen: map[any]bool{}, sums: map[string]*big.Int{}}
	for _, g := range b.Grants {
		s.require(g.UID != "")
		s.once("grant", g.UID)
		for _, a := range g.Allowances {
			s.sum("limit", a.ResourceType, 0, int64(a.Amount))
		}
	}
	s.observations(b.Observations)
	for _, r := range b.Reservations {
		s.require(r.Awaits == nil || r.Awaits.Kind != "" && r.Awaits.ID != "")
		s.require(r.Key != "" && len(r.Charges) > 0 && r.Sequence > 0 && r.Sequence <= b.Sequence)
		s.once("key", r.Key)
		s.once("sequence", r.Sequence)
		for _, c := range r.Charges {
			s.once("charge", r.Key, c.ResourceType, c.Dimensions)
			s.sum("demand", c.ResourceType, 1, int64(c.Amount))
		}
	}
	s.require(b.Sequence >= 0 && b.Sequence <= ledger.CountMax)
	return !s.unsound
}
