package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
)

// ledgerOf returns a ledger with usage of size bytes. Each claim has a dimension set of its own.
func ledgerOf(t *testing.T, size int) *ledger.Ledger {
	t.Helper()
	l := ledger.New()
	if _, err := l.SetGrant(ledger.Grant{UID: "g", Allowances: []ledger.Allowance{{ResourceType: "gpu", Amount: 1 << 40}}}); err != nil {
		t.Fatal(err)
	}
	for i := 0; l.Bytes() < size; i++ {
		if _, err := l.SetUsed(ledger.Usage{ResourceType: fmt.Sprint("t", i/ledger.BalancesMax), Dimensions: dimensionOf(i), Amount: 2, Claims: 1}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func dimensionOf(i int) ledger.Dimensions {
	return dimensionsOf("volume", fmt.Sprintf("%0*d", ledger.DimensionValueBytesMax, i))
}

// In a full ledger, reductions always succeed, and increases never do.
func TestFullLedger(t *testing.T) {
	const short = 500 // of the budget
	charge := func(i int, amount ledger.Amount) []ledger.Charge {
		return []ledger.Charge{{ResourceType: "t0", Dimensions: dimensionOf(i), Amount: amount}}
	}
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
		"reserve with a new balance": {"the balance that a claim will need once it is settled counts", func(l *ledger.Ledger) any {
			return l.ReserveOverdraft(ledger.Reservation{Key: "k", Charges: []ledger.Charge{{ResourceType: "new", Dimensions: dimensionOf(0), Amount: 1}}}).Code
		}, ledger.LedgerFull},
		"overdraft": {"objects that exist are no exception", func(l *ledger.Ledger) any {
			return l.ReserveOverdraft(ledger.Reservation{Key: "k", Charges: gpu, Claim: large}).Code
		}, ledger.LedgerFull},
		"release": {"a record is shorter than a ledger's rest", func(l *ledger.Ledger) any {
			return l.Release(ledger.SettledClaim{UID: "claim", Charges: charge(1, 2)})
		}, true},
		"correct a balance": {"an audit changes what is in use", func(l *ledger.Ledger) any {
			changed, err := l.SetUsed(ledger.Usage{ResourceType: "t0", Dimensions: dimensionOf(1), Amount: 9, Claims: 1})
			return fmt.Sprint(changed, err)
		}, "true <nil>"},
		"correct with a new balance": {"an audit adds no balance without room", func(l *ledger.Ledger) any {
			_, err := l.SetUsed(ledger.Usage{ResourceType: strings.Repeat("n", ledger.ResourceTypeBytesMax), Dimensions: dimensionOf(0), Amount: 9, Claims: 1})
			return err != nil && len(l.ResourceTypes()) == 3
		}, true},
		"grant": {"limits have a budget of their own", func(l *ledger.Ledger) any {
			changed, err := l.SetGrant(ledger.Grant{UID: "h", Name: large})
			return fmt.Sprint(changed, err)
		}, "true <nil>"},
		"read": {"what is stored is read, whatever its size", func(l *ledger.Ledger) any {
			b := l.Snapshot()
			for i := range 100 {
				b.Used = append(b.Used, ledger.Usage{ResourceType: "more", Dimensions: dimensionOf(i), Amount: 1, Claims: 1})
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
