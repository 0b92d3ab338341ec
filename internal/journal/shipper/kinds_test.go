package shipper

import (
	"testing"

	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/ledger"
)

// Each kind of change that a ledger records has a name in the API, so that people can read it.
func TestKindsAreReadable(t *testing.T) {
	for _, kind := range []ledger.ChangeKind{
		ledger.KindAdmitted, ledger.KindCanceled, ledger.KindChanged, ledger.KindReleased, ledger.KindRecounted, ledger.KindLimitChanged,
	} {
		entry := journal.Entry{Kind: journal.Kind(kind)}
		if _, err := entry.ToAPI(); err != nil {
			t.Error(err)
		}
	}
}
