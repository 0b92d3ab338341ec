package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
)

// ledgerOf returns a ledger of size bytes. Each object has a dimension set of its own.
func ledgerOf(t *testing.T, size int) *ledger.Ledger {
	t.Helper()
	l := ledger.New()
	if _, err := l.SetGrant(ledger.Grant{UID: "g", Allowances: []ledger.Allowance{{ResourceType: "gpu", Amount: 1 << 40}}}); err != nil {
		t.Fatal(err)
	}
	for i := 0; l.Bytes() < size; i++ {
		use(t, l, fmt.Sprint("t", i/ledger.BalancesMax), dimensionOf(i), 2)
	}
	return l
}

func dimensionOf(i int) ledger.Dimensions {
	return dimensionsOf("volume", fmt.Sprintf("%0*d", ledger.DimensionValueBytesMax, i))
}

// In a full ledger, reductions always succeed, and increases never do.
func TestFullLedger(t *testing.T) {
	const short = 500 // of the budget
	gpu := []ledger.Charge{{ResourceType: "gpu", Amount: 1}}
	large := strings.Repeat("x", 1000)
	tests := map[string]struct {
		reason string
		do     func(*ledger.Ledger) any
		want   any
	}{
		"reserve": {"a request that fits the limits and not the ledger has a code of its own", func(l *ledger.Ledger) any {
			return l.Reserve(ledger.Reservation{Key: "k", Charges: gpu, Claim: large}).Code
		}, ledger.LedgerFull},
		"reserve with a new balance": {"the room for the demand of the object counts", func(l *ledger.Ledger) any {
			return l.ReserveOverdraft(ledger.Reservation{Key: "k", Charges: []ledger.Charge{{ResourceType: "new", Dimensions: dimensionOf(0), Amount: 1}}}).Code
		}, ledger.LedgerFull},
		"overdraft": {"objects that exist are no exception", func(l *ledger.Ledger) any {
			return l.ReserveOverdraft(ledger.Reservation{Key: "k", Charges: gpu, Claim: large}).Code
		}, ledger.LedgerFull},
		"less": {"an object that ends makes room", func(l *ledger.Ledger) any {
			before := l.Bytes()
			use(t, l, "t0", dimensionOf(1), 0)
			return l.Bytes() < before
		}, true},
		"more": {"nobody can refuse what exists", func(l *ledger.Ledger) any {
			use(t, l, "new", dimensionOf(0), 9)
			return l.Account("new").Used
		}, ledger.Amount(9)},
		"grant": {"limits have a budget of their own", func(l *ledger.Ledger) any {
			changed, err := l.SetGrant(ledger.Grant{UID: "h", Name: large})
			return fmt.Sprint(changed, err)
		}, "true <nil>"},
		"read": {"what is stored is read, whatever its size", func(l *ledger.Ledger) any {
			b := l.Snapshot()
			for i := range 100 {
				o := &b.Observations[0]
				o.Demands = append(o.Demands, ledger.Demand{ResourceType: "more", Dimensions: dimensionOf(i), Amount: 1, Objects: 1})
				b.Grants = append(b.Grants, ledger.Grant{UID: fmt.Sprint(i), Name: strings.Repeat("n", ledger.GrantBytesMax/50)})
			}
			read, err := ledger.Restore(b)
			return err == nil && read.Bytes() > ledger.BytesMax
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := ledgerOf(t, ledger.BytesMax-short)
			if got := tt.do(l); got != tt.want {
				t.Errorf("%s: got %v, want %v", tt.reason, got, tt.want)
			}
		})
	}
}
