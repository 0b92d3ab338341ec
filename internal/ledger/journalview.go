package ledger

import (
	"cmp"
	"slices"
)

// Entry is one change of a record, with its result.
type Entry struct {
	// Sequence grows by 1 with each change.
	Sequence int64
	// Record is the record. Its Changes include this one.
	Record *Record
	// Change is the difference. Its amount may be negative.
	Change Charge
	// Used is the demand for the resource type after the change, without slices, and Limit its limit.
	Used, Limit Amount
}

// Opening is the state before the records of a ledger.
type Opening struct {
	Sequence int64
	// At is the time of the state in milliseconds since 1970.
	At int64
	// Lost is the number of changes lost before it.
	Lost int64
	// Limits are the amounts of each grant and resource type, without zeros.
	Limits []GrantedAmount
	// Balances are the demands of each resource type and dimension set, without zeros and slices.
	Balances []Charge
}

// GrantedAmount is the amount of a resource type in a grant.
type GrantedAmount struct {
	ResourceType string
	// Grant is the namespace and name of the grant.
	Grant  string
	Amount Amount
}

// JournalAfter returns the opening state, if it is among the records, and the changes. It returns both only from stored
// records, and only with sequences after the given one. last is the last stored sequence.
func (l *Ledger) JournalAfter(sequence int64) (opening *Opening, entries []Entry, last int64) {
	j := l.journal
	if j == nil || j.OpenedAt != 0 && !j.isOpeningStored {
		return nil, nil, sequence
	}
	if j.OpenedAt != 0 && j.First-1 > sequence {
		opening = l.opening()
	}
	last = max(sequence, j.First-1+changesOf(j.Records[:j.stored]))
	return opening, l.entriesAfter(sequence), last
}

// IsJournalBefore reports whether the journal ends before a sequence from an earlier answer.
func (l *Ledger) IsJournalBefore(sequence int64) bool {
	return l.journal != nil && l.journal.First-1+l.journal.changes() < sequence
}

// entriesAfter returns the stored changes after a sequence. It works out the amounts from the last change back.
func (l *Ledger) entriesAfter(sequence int64) []Entry {
	after := map[string]Account{}
	var entries []Entry
	next := l.journal.First + l.journal.changes()
	for i := len(l.journal.Records) - 1; i >= 0 && next-1 > sequence; i-- {
		r := &l.journal.Records[i]
		for k := len(r.Changes) - 1; k >= 0; k-- {
			next--
			change := r.Changes[k]
			state, isKnown := after[change.ResourceType]
			if !isKnown {
				state = l.Account(change.ResourceType)
			}
			if i < l.journal.stored && next > sequence {
				entries = append(entries, Entry{Sequence: next, Record: r, Change: change, Used: state.Used + state.Reserved, Limit: state.Limit})
			}
			if r.Kind == KindLimitChanged {
				state.Limit -= change.Amount
			} else {
				state.Used -= change.Amount
			}
			after[change.ResourceType] = state
		}
	}
	slices.Reverse(entries)
	return entries
}

// opening returns the state before all records.
func (l *Ledger) opening() *Opening {
	type grantedKey struct{ resourceType, grant string }
	limits := map[grantedKey]Amount{}
	for g := range l.Grants() {
		for _, a := range g.Allowances {
			limits[grantedKey{a.ResourceType, g.fullName()}] += a.Amount
		}
	}
	var demand, changed []Charge
	for _, resourceType := range l.ResourceTypes() {
		for _, b := range l.Balances(resourceType) {
			demand = append(demand, Charge{ResourceType: resourceType, Dimensions: b.Dimensions, Amount: b.Used + b.Reserved})
		}
	}
	for i := range l.journal.Records {
		r := &l.journal.Records[i]
		if r.Kind != KindLimitChanged {
			changed = append(changed, r.Changes...)
			continue
		}
		for _, c := range r.Changes {
			limits[grantedKey{c.ResourceType, r.Grant}] -= c.Amount
		}
	}
	opening := &Opening{Sequence: l.journal.First - 1, At: l.journal.OpenedAt, Lost: l.journal.Lost}
	for c := range differences(demand, changed) {
		if c.Amount != 0 {
			opening.Balances = append(opening.Balances, c)
		}
	}
	for key, amount := range limits {
		if amount != 0 {
			opening.Limits = append(opening.Limits, GrantedAmount{ResourceType: key.resourceType, Grant: key.grant, Amount: amount})
		}
	}
	slices.SortFunc(opening.Balances, func(a, b Charge) int {
		return cmp.Or(cmp.Compare(a.ResourceType, b.ResourceType), a.Dimensions.Compare(b.Dimensions))
	})
	slices.SortFunc(opening.Limits, func(a, b GrantedAmount) int {
		return cmp.Or(cmp.Compare(a.ResourceType, b.ResourceType), cmp.Compare(a.Grant, b.Grant))
	})
	return opening
}

// restoreJournal adds the records of a snapshot. It leaves out an impossible journal, because the journal must not deny
// anything: it then begins again.
func (l *Ledger) restoreJournal(stored *Journal) {
	if stored.First < 1 || stored.First > CountMax || stored.OpenedAt < 0 || stored.Lost < 0 {
		return
	}
	j := &journal{Journal: *stored, stored: len(stored.Records), isOpeningStored: true}
	j.Records = slices.Clone(stored.Records)
	for i := range j.Records {
		r := &j.Records[i]
		isEmpty := func(c Charge) bool { return c.Amount == 0 || !validResourceType(c.ResourceType) }
		if r.Kind == "" || len(r.Changes) == 0 || slices.ContainsFunc(r.Changes, isEmpty) {
			return
		}
		j.bytes += r.size()
	}
	l.journal = j
}
