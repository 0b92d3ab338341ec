package ledgerstore

import (
	"strconv"

	"github.com/bursar/bursar/internal/ledger"
)

// Unfinished is the value of [quotav1alpha1.AnnotationUnfinished]. It is empty for a ledger from an earlier version of
// Bursar: it may have anything unfinished.
type Unfinished string

const (
	// NothingUnfinished means that the ledger has neither reservations nor slices, nor changes missing in the journal.
	NothingUnfinished Unfinished = "none"
	// OnlySlices means that the ledger has slices and no reservations.
	OnlySlices Unfinished = "slices"
	// OnlyJournal means that the ledger has changes missing in the journal, and nothing else of these.
	OnlyJournal Unfinished = "journal"
)

// UnfinishedIn returns the unfinished work in a ledger.
func UnfinishedIn(snapshot *ledger.Snapshot) Unfinished {
	var oldest int64
	for i := range snapshot.Reservations {
		if sequence := snapshot.Reservations[i].Sequence; oldest == 0 || sequence < oldest {
			oldest = sequence
		}
	}
	switch {
	case oldest > 0:
		return Unfinished(strconv.FormatInt(oldest, 10))
	case len(snapshot.Slices) > 0:
		return OnlySlices
	case snapshot.Journal != nil && (len(snapshot.Journal.Records) > 0 || snapshot.Journal.OpenedAt != 0):
		return OnlyJournal
	default:
		return NothingUnfinished
	}
}

// oldest returns the sequence of the oldest reservation in flight, or 0 if there is none or it is unknown.
func (u Unfinished) oldest() int64 {
	sequence, err := strconv.ParseInt(string(u), 10, 64)
	if err != nil {
		return 0
	}
	return sequence
}
