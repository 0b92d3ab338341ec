package ledger_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/internal/ledger"
)

// reader replays the records of a ledger.
type reader struct {
	t        reporter
	sequence int64
	limits   map[[2]string]ledger.Amount // by resource type and grant
	balances map[ledger.Charge]ledger.Amount
}

// read reads the records of the ledger after the reader's sequence.
func (r *reader) read(l *ledger.Ledger) {
	opening, entries, last := l.JournalAfter(r.sequence)
	if opening != nil {
		r.open(opening)
	}
	for i := range entries {
		r.add(&entries[i])
	}
	if last != r.sequence {
		r.t.Fatalf("read up to %d, want %d", r.sequence, last)
	}
	r.compare(l)
}

func (r *reader) open(opening *ledger.Opening) {
	if opening.Sequence <= r.sequence {
		r.t.Fatalf("opening %d comes after %d", opening.Sequence, r.sequence)
	}
	r.sequence, r.limits, r.balances = opening.Sequence, map[[2]string]ledger.Amount{}, map[ledger.Charge]ledger.Amount{}
	for _, g := range opening.Limits {
		r.limits[[2]string{g.ResourceType, g.Grant}] = g.Amount
	}
	for _, b := range opening.Balances {
		amount := b.Amount
		b.Amount = 0
		r.balances[b] = amount
	}
}

func (r *reader) add(e *ledger.Entry) {
	if r.sequence++; e.Sequence != r.sequence {
		r.t.Fatalf("entry %d, want %d", e.Sequence, r.sequence)
	}
	if key := e.Change; e.Record.Kind == ledger.KindLimitChanged {
		r.limits[[2]string{key.ResourceType, e.Record.Grant}] += key.Amount
	} else {
		key.Amount = 0
		r.balances[key] += e.Change.Amount
	}
	used, limit := r.totals(e.Change.ResourceType)
	if e.Used != used || e.Limit != limit {
		r.t.Fatalf("entry %d leads to %d of %d, want %d of %d", e.Sequence, e.Used, e.Limit, used, limit)
	}
}

func (r *reader) totals(resourceType string) (used, limit ledger.Amount) {
	for c, amount := range r.balances {
		if c.ResourceType == resourceType {
			used += amount
		}
	}
	for key, amount := range r.limits {
		if key[0] == resourceType {
			limit += amount
		}
	}
	return used, limit
}

// compare compares the replayed state with the ledger.
func (r *reader) compare(l *ledger.Ledger) {
	got, want := map[ledger.Charge]ledger.Amount{}, map[ledger.Charge]ledger.Amount{}
	for c, amount := range r.balances {
		if amount != 0 {
			got[c] = amount
		}
	}
	for _, resourceType := range l.ResourceTypes() {
		for _, b := range l.Balances(resourceType) {
			if b.Used+b.Reserved != 0 {
				want[ledger.Charge{ResourceType: resourceType, Dimensions: b.Dimensions}] = b.Used + b.Reserved
			}
		}
	}
	(&pair{t: r.t}).same("the replayed balances", got, want)
	granted, held := map[[2]string]ledger.Amount{}, map[[2]string]ledger.Amount{}
	for key, amount := range r.limits {
		if amount != 0 {
			granted[key] = amount
		}
	}
	for g := range l.Grants() {
		for _, a := range g.Allowances {
			if a.Amount != 0 {
				held[[2]string{a.ResourceType, g.Namespace + "/" + g.Name}] += a.Amount
			}
		}
	}
	(&pair{t: r.t}).same("the replayed limits", granted, held)
}

// TestJournalGivesTheLedger does random operations on a ledger. In between, it stores, reads, trims and bounds the
// ledger. The records always lead to the ledger as it is.
func TestJournalGivesTheLedger(t *testing.T) {
	for name, huge := range map[string]bool{"small amounts": false, "amounts near the largest": true} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p, s := newPair(t), drawn{t}
				for range s.choose("before", 5) {
					p.step(s, huge)
				}
				p.ledger.StartJournal(int64(s.choose("opening", 100)) + 1)
				r := &reader{t: t}
				for range 12 {
					p.ledger.BeginBatch(1000)
					for range 1 + s.choose("batch", 4) {
						p.step(s, huge)
					}
					if s.choose("bound", 40) == 0 {
						p.exceedJournal()
					}
					p.ledger.BoundJournal()
					p.ledger.MarkStored()
					if s.choose("read", 2) == 0 {
						r.read(p.ledger)
					}
					if s.choose("trim", 3) == 0 {
						p.ledger.TrimJournal(r.sequence)
					}
				}
				p.ledger.MarkStored()
				r.read(p.ledger)
				p.ledger.TrimJournal(r.sequence)
				if changes, hasOpening := p.ledger.PendingChanges(); changes != 0 || hasOpening {
					t.Fatalf("%d changes are left, opening state: %t", changes, hasOpening)
				}
			})
		})
	}
}

// exceedJournal adds records until there are too many.
func (p *pair) exceedJournal() {
	for range ledger.JournalBytesMax / ledger.SubjectBytesMax {
		key := strings.Repeat("k", 100)
		r := ledger.Reservation{Key: key, Claim: strings.Repeat("x", ledger.SubjectBytesMax), Charges: []ledger.Charge{{ResourceType: "disk", Amount: 1}}}
		if d := p.ledger.ReserveOverdraft(r); d.Code != ledger.Admitted {
			p.t.Fatalf("reserve: %s", d.Code)
		}
		p.same("ReserveOverdraft", p.model.ReserveOverdraft(r).Code, ledger.Admitted)
		p.ledger.MarkStored()
		p.ledger.BeginBatch(1000)
		p.same("Cancel", p.ledger.Cancel(key, 0), p.model.Cancel(key, 0))
	}
}

// TestUndoneReservationLeavesNoRecord cancels reservations before and after a write.
func TestUndoneReservationLeavesNoRecord(t *testing.T) {
	l := ledger.New()
	l.StartJournal(1)
	charges := []ledger.Charge{{ResourceType: "cpu", Amount: 3}}
	for name, test := range map[string]struct {
		isStored bool
		want     []ledger.ChangeKind
	}{
		"before it was stored": {isStored: false},
		"after it was stored":  {isStored: true, want: []ledger.ChangeKind{ledger.KindAdmitted, ledger.KindCanceled}},
	} {
		t.Run(name, func(t *testing.T) {
			l.MarkStored()
			_, _, before := l.JournalAfter(0)
			l.BeginBatch(5000)
			l.ReserveOverdraft(ledger.Reservation{Key: "k", Actor: "alice", Charges: charges})
			if test.isStored {
				l.MarkStored()
				l.BeginBatch(6000)
			}
			l.Cancel("k", 0)
			l.MarkStored()
			_, entries, _ := l.JournalAfter(before)
			if len(entries) != len(test.want) {
				t.Fatalf("%d entries, want %d", len(entries), len(test.want))
			}
			for i, want := range test.want {
				if r := entries[i].Record; r.Kind != want || r.At != 5000+int64(i)*1000 {
					t.Errorf("entry %d is %s at %d, want %s", i, r.Kind, r.At, want)
				}
			}
		})
	}
}
