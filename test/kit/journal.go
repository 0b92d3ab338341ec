package kit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/files"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// CheckJournal returns nil if the journal in some directories, replayed, gives each ledger exactly as it is stored at
// some moment during the call, and lost nothing. The journal follows the ledgers a moment later: a test calls it until
// it returns nil. Ledgers may change meanwhile.
func CheckJournal(ctx context.Context, api client.Reader, dirs ...string) error {
	var ledgers, later quotav1alpha1.ConsumerLedgerList
	if err := api.List(ctx, &ledgers); err != nil {
		return err
	}
	entries, err := readJournal(ctx, dirs)
	if err != nil {
		return err
	}
	if err := api.List(ctx, &later); err != nil {
		return err
	}
	var errs []error
	for i := range ledgers.Items {
		spec := &ledgers.Items[i].Spec
		if err := replay(spec, entries[spec.ConsumerRef]); err != nil {
			errs = append(errs, fmt.Errorf("the journal of %s: %w", spec.ConsumerRef.Name, err))
		}
	}
	for i := range later.Items {
		spec := &later.Items[i].Spec
		recorded := entries[spec.ConsumerRef]
		if n := len(recorded); n > 0 && recorded[n-1].Sequence > lastChange(spec.Journal) {
			errs = append(errs, fmt.Errorf("the journal of %s has entry %d, its ledger has %d", spec.ConsumerRef.Name, recorded[n-1].Sequence, lastChange(spec.Journal)))
		}
		delete(entries, spec.ConsumerRef)
	}
	for consumer := range entries {
		errs = append(errs, fmt.Errorf("the journal has entries of %s, which has no ledger", consumer.Name))
	}
	return errors.Join(errs...)
}

// readJournal returns the entries of each consumer in some directories by their sequence, each once.
func readJournal(ctx context.Context, dirs []string) (map[quotav1alpha1.ConsumerRef][]journal.Entry, error) {
	byConsumer := map[quotav1alpha1.ConsumerRef][]journal.Entry{}
	for _, dir := range dirs {
		for e, err := range files.Dir(dir).Entries(ctx, journal.Query{}) {
			if err != nil {
				return nil, err
			}
			byConsumer[e.Consumer] = append(byConsumer[e.Consumer], e)
		}
	}
	for consumer, entries := range byConsumer {
		slices.SortStableFunc(entries, func(a, b journal.Entry) int { return cmp.Compare(a.Sequence, b.Sequence) })
		for i := 1; i < len(entries); i++ {
			if entries[i].Sequence == entries[i-1].Sequence && !reflect.DeepEqual(entries[i], entries[i-1]) {
				return nil, fmt.Errorf("the journal of %s has entry %d twice: %+v and %+v", consumer.Name, entries[i].Sequence, entries[i-1], entries[i])
			}
		}
		byConsumer[consumer] = slices.CompactFunc(entries, func(a, b journal.Entry) bool { return a.Sequence == b.Sequence })
	}
	return byConsumer, nil
}

// replay compares a stored ledger with the entries up to its last change.
func replay(spec *quotav1alpha1.ConsumerLedgerSpec, entries []journal.Entry) error {
	var replayed journal.Replay
	last := lastChange(spec.Journal)
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

// lastChange returns the sequence of the last change of a ledger, or 0 without a journal.
func lastChange(stored *quotav1alpha1.LedgerJournal) int64 {
	if stored == nil {
		return 0
	}
	last := stored.First - 1
	for i := range stored.Records {
		last += int64(len(stored.Records[i].Changes))
	}
	return last
}

// stateOf returns the limits of a ledger and what it has in use, with what is reserved.
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
