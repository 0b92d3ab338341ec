package ledgerstore_test

import (
	"testing"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

func TestCorrect(t *testing.T) {
	usage := func(amount ledger.Amount, claims int64) ledger.Usage {
		return ledger.Usage{ResourceType: gpu, Amount: amount, Claims: claims}
	}
	tests := map[string]struct {
		reason              string
		observed, corrected ledger.Usage
		want                bool
		wantUsed            ledger.Amount
		wantClaims          int64
	}{
		"up":             {reason: "usage that is missing is charged", observed: usage(4, 1), corrected: usage(6, 2), want: true, wantUsed: 6, wantClaims: 2},
		"beyond limits":  {reason: "what is there counts, whatever the limit", observed: usage(4, 1), corrected: usage(60, 2), want: true, wantUsed: 60, wantClaims: 2},
		"down":           {reason: "usage that nobody holds is given back", observed: usage(4, 1), corrected: usage(0, 0), want: true},
		"already so":     {reason: "a correction made twice is made", observed: usage(4, 1), corrected: usage(4, 1), want: true, wantUsed: 4, wantClaims: 1},
		"other amount":   {reason: "the ledger changed since", observed: usage(3, 1), corrected: usage(6, 2), wantUsed: 4, wantClaims: 1},
		"other count":    {reason: "the ledger changed since", observed: usage(4, 2), corrected: usage(6, 2), wantUsed: 4, wantClaims: 1},
		"nothing is not": {reason: "there is usage where none was observed", observed: usage(0, 0), corrected: usage(6, 2), wantUsed: 4, wantClaims: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			p := start(t, memory, nil)
			p.limit(t, 10)
			p.use(t, "k", 4)
			did, err := p.Correct(t.Context(), acme, tt.observed, tt.corrected)
			if err != nil || did != tt.want {
				t.Errorf("%s: got %t, error %v", tt.reason, did, err)
			}
			if got := stored(t, memory); got.Used != tt.wantUsed || got.Claims != tt.wantClaims {
				t.Errorf("%s: %d used by %d claims, want %d by %d", tt.reason, got.Used, got.Claims, tt.wantUsed, tt.wantClaims)
			}
		})
	}
}

// Reservations in flight do not prevent a correction, and stay as they are.
func TestCorrectWithReservations(t *testing.T) {
	memory := storagetest.New()
	p := start(t, memory, nil)
	p.limit(t, 10)
	p.use(t, "k", 4)
	p.reserve(t, "new", 1)
	usage := func(amount ledger.Amount) ledger.Usage {
		return ledger.Usage{ResourceType: gpu, Amount: amount, Claims: 1}
	}
	if did, err := p.Correct(t.Context(), acme, usage(3), usage(5)); did || err != nil {
		t.Errorf("corrected %t a balance of something else: %v", did, err)
	}
	if did, err := p.Correct(t.Context(), acme, usage(4), usage(6)); !did || err != nil {
		t.Errorf("corrected %t: %v", did, err)
	}
	expect(t, "the balance is corrected", memory, summary{Limit: 10, Used: 6, Claims: 1, Reserved: 1, Keys: []string{"new"}})
}

func TestCorrectRejects(t *testing.T) {
	tests := map[string][2]ledger.Usage{
		"another balance": {{ResourceType: gpu, Amount: 4, Claims: 1}, {ResourceType: "compute/cpu", Amount: 4, Claims: 1}},
		"negative usage":  {{ResourceType: gpu, Amount: 4, Claims: 1}, {ResourceType: gpu, Amount: -4, Claims: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			p := start(t, memory, nil)
			p.limit(t, 10)
			p.use(t, "k", 4)
			if did, err := p.Correct(t.Context(), acme, tt[0], tt[1]); err == nil || did {
				t.Errorf("got %t, error %v", did, err)
			}
			expect(t, "nothing changed", memory, summary{Limit: 10, Used: 4, Claims: 1})
		})
	}
}
