package ledgerstore

import (
	"context"
	"errors"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Preload reads the given stored ledgers with reservations, slices, records of releases or changes missing in the
// journal: the store needs them after a restart. The store reads all others at their first use.
func (s *Store) Preload(ctx context.Context, ledgers []quotav1alpha1.ConsumerLedger) error {
	var errs []error
	for i := range ledgers {
		spec := &ledgers[i].Spec
		if len(spec.Reservations) > 0 || len(spec.Released) > 0 || len(spec.Slices) > 0 || HasRecords(spec.Journal) {
			if err := s.View(ctx, spec.ConsumerRef, func(*ledger.Ledger) {}); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		s.mu.Lock()
		s.consumers[ledgers[i].Name] = spec.ConsumerRef
		s.listed[ledgers[i].Name] = Version(ledgers[i].ResourceVersion)
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}
