package ledgerstore

import (
	"context"
	"errors"
	"fmt"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Preload takes the given listed ledgers with reservations, slices, records of releases or changes missing in the
// journal into memory: the store needs them after a restart. It asks storage for none of them, so a start takes as long
// as the list, however many ledgers have unfinished work. The store reads all others at their first use.
func (s *Store) Preload(ctx context.Context, ledgers []quotav1alpha1.ConsumerLedger) error {
	var errs []error
	for i := range ledgers {
		stored := &ledgers[i]
		if needsPreload(&stored.Spec) {
			if err := s.preload(ctx, stored); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		s.observed.set(stored.Spec.ConsumerRef, Observed(stored.Annotations[quotav1alpha1.AnnotationObserved]))
		s.mu.Lock()
		s.consumers[stored.Name] = stored.Spec.ConsumerRef
		s.listed[stored.Name] = Version(stored.ResourceVersion)
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

// needsPreload reports whether a stored ledger has work that somebody has to finish.
func needsPreload(spec *quotav1alpha1.ConsumerLedgerSpec) bool {
	return len(spec.Reservations) > 0 || len(spec.Slices) > 0 || HasRecords(spec.Journal)
}

// preload makes a listed ledger the first copy of its committer.
func (s *Store) preload(ctx context.Context, stored *quotav1alpha1.ConsumerLedger) error {
	snapshot, err := SnapshotOf(&stored.Spec)
	if err != nil {
		return fmt.Errorf("decode ConsumerLedger %s: %w", stored.Name, err)
	}

	c := s.committer(stored.Spec.ConsumerRef)
	c.first.Store(&listedCopy{snapshot: snapshot, version: Version(stored.ResourceVersion)})
	defer c.first.Store(nil) // a committer with a copy did not take it, and must not later
	return s.do(ctx, stored.Spec.ConsumerRef, &operation{leavesDeferred: true, apply: nothing})
}

// listedCopy is a ledger as a list showed it. It may be older than the stored one, as any copy in memory may be:
// operations compare its version with the stored one before they take effect.
type listedCopy struct {
	snapshot ledger.Snapshot
	version  Version
}
