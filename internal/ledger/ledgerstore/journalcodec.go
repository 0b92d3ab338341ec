package ledgerstore

import (
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// storedJournal encodes the journal of a ledger.
func storedJournal(journal *ledger.Journal) *quotav1alpha1.LedgerJournal {
	if journal == nil {
		return nil
	}
	stored := &quotav1alpha1.LedgerJournal{First: journal.First, OpenedAt: journal.OpenedAt, Lost: journal.Lost}
	for i := range journal.Records {
		r := &journal.Records[i]
		stored.Records = append(stored.Records, quotav1alpha1.LedgerRecord{
			At: r.At, Kind: string(r.Kind), Key: r.Key, Subject: r.Subject, Actor: r.Actor, Grant: r.Grant, Changes: storedCharges(r.Changes),
		})
	}
	return stored
}

// journalOf decodes a stored journal. It returns nil for an unreadable one, because the journal must not deny anything:
// it then begins again.
func journalOf(stored *quotav1alpha1.LedgerJournal) *ledger.Journal {
	if stored == nil {
		return nil
	}
	journal := &ledger.Journal{First: stored.First, OpenedAt: stored.OpenedAt, Lost: stored.Lost}
	for i := range stored.Records {
		r := &stored.Records[i]
		changes, err := chargesOf(r.Changes)
		if err != nil {
			return nil
		}
		journal.Records = append(journal.Records, ledger.Record{
			At: r.At, Kind: ledger.ChangeKind(r.Kind), Key: r.Key, Subject: r.Subject, Actor: r.Actor, Grant: r.Grant, Changes: changes,
		})
	}
	return journal
}
