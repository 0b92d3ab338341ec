// Package replayed compares the journal with the ledgers it records.
package replayed

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Ordered returns the entries of one consumer by their sequence, each once. It returns an error if two entries with the
// same sequence differ.
func Ordered(entries []journal.Entry) ([]journal.Entry, error) {
	ordered := slices.Clone(entries)
	slices.SortStableFunc(ordered, func(a, b journal.Entry) int { return cmp.Compare(a.Sequence, b.Sequence) })
	for i := 1; i < len(ordered); i++ {
		if ordered[i].Sequence == ordered[i-1].Sequence && !reflect.DeepEqual(ordered[i], ordered[i-1]) {
			return nil, fmt.Errorf("entry %d differs from its repetition: %+v and %+v", ordered[i].Sequence, ordered[i-1], ordered[i])
		}
	}
	return slices.CompactFunc(ordered, func(a, b journal.Entry) bool { return a.Sequence == b.Sequence }), nil
}

// Compare returns nil if the ordered entries up to the last change of a stored ledger give the ledger exactly.
func Compare(spec *quotav1alpha1.ConsumerLedgerSpec, entries []journal.Entry) error {
	var replayed journal.Replay
	last := LastChange(spec.Journal)
	for i := range entries {
		if entries[i].Sequence > last {
			break
		}
		if i > 0 && entries[i].Kind == journal.Opened {
			return fmt.Errorf("it begins again with entry %d, and lost %d changes", entries[i].Sequence, entries[i].Opening.Lost)
		}
		if err := replayed.Add(entries[i]); err != nil {
			return err
		}
	}
	if has := replayed.Sequence(spec.ConsumerRef); has != last {
		return fmt.Errorf("it has entries up to %d, the ledger has changes up to %d", has, last)
	}
	want, err := stateOf(spec)
	if err != nil {
		return err
	}
	if got := replayed.State(spec.ConsumerRef); !reflect.DeepEqual(got, want) {
		return fmt.Errorf("the entries up to %d add up to %+v, the ledger has %+v", last, got, want)
	}
	return nil
}

// LastChange returns the sequence of the last change of a ledger, or 0 without a journal.
func LastChange(stored *quotav1alpha1.LedgerJournal) int64 {
	if stored == nil {
		return 0
	}
	last := stored.First - 1
	for i := range stored.Records {
		last += int64(len(stored.Records[i].Changes))
	}
	return last
}

// stateOf returns the limits of a ledger and its usage, including the reserved amounts.
func stateOf(spec *quotav1alpha1.ConsumerLedgerSpec) (state journal.Opening, err error) {
	snapshot, err := ledgerstore.SnapshotOf(spec)
	if err != nil {
		return state, err
	}
	l, err := ledger.Restore(snapshot)
	if err != nil {
		return state, err
	}
	type limitKey struct{ resourceType, grant string }
	limits := map[limitKey]int64{}
	for g := range l.Grants() {
		for _, a := range g.Allowances {
			limits[limitKey{a.ResourceType, strings.TrimPrefix(g.Namespace+"/"+g.Name, "/")}] += int64(a.Amount)
		}
	}
	for key, amount := range limits {
		if amount > 0 {
			state.Limits = append(state.Limits, journal.Limit{ResourceType: key.resourceType, Grant: key.grant, Amount: amount})
		}
	}
	for _, resourceType := range l.ResourceTypes() {
		for _, b := range l.Balances(resourceType) {
			if amount := int64(b.Used + b.Reserved); amount > 0 {
				state.Balances = append(state.Balances, journal.Balance{ResourceType: resourceType, Dimensions: b.Dimensions.Map(), Amount: amount})
			}
		}
	}
	state.Sort()
	return state, nil
}
