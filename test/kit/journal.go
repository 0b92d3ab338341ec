package kit

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/files"
	"github.com/bursar/bursar/test/replayed"
)

// CheckJournal returns nil if the journal in some directories has lost nothing and its replay gives each ledger exactly
// as it was in storage at some moment during the call. The journal follows the ledgers a moment later: a test calls it
// until it returns nil. Ledgers may change meanwhile.
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
		if err := replayed.Compare(spec, entries[spec.ConsumerRef]); err != nil {
			errs = append(errs, fmt.Errorf("the journal of %s: %w", spec.ConsumerRef.Name, err))
		}
	}
	for i := range later.Items {
		spec := &later.Items[i].Spec
		recorded := entries[spec.ConsumerRef]
		if n := len(recorded); n > 0 && recorded[n-1].Sequence > replayed.LastChange(spec.Journal) {
			errs = append(errs, fmt.Errorf("the journal of %s has entry %d, its ledger has %d", spec.ConsumerRef.Name, recorded[n-1].Sequence, replayed.LastChange(spec.Journal)))
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
		ordered, err := replayed.Ordered(entries)
		if err != nil {
			return nil, fmt.Errorf("the journal of %s: %w", consumer.Name, err)
		}
		byConsumer[consumer] = ordered
	}
	return byConsumer, nil
}
