package ledger_test

import (
	"fmt"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
)

const plenty = ledger.Amount(1) << 60

func typeName(i int) string { return fmt.Sprintf("compute.example.com/resource-%02d", i) }

// ledgerFor returns a ledger with a limit of plenty for 20 types and the given reservations in
// flight. With selective, each type also has an allowance for one region.
func ledgerFor(b *testing.B, selective bool, inFlight int) *ledger.Ledger {
	b.Helper()
	g := ledger.Grant{UID: "uid", Name: "grant"}
	for i := range ledger.ChargesMax {
		g.Allowances = append(g.Allowances, ledger.Allowance{ResourceType: typeName(i), Amount: plenty})
		if selective {
			g.Allowances = append(g.Allowances, ledger.Allowance{ResourceType: typeName(i), Selector: selectorOf(in("region", "eu")), Amount: plenty})
		}
	}
	l := ledger.New()
	if _, err := l.SetGrant(g); err != nil {
		b.Fatal(err)
	}
	for i := range inFlight {
		mustAdmit(b, l.Reserve(ledger.Reservation{Key: fmt.Sprintf("in-flight/%d", i), Charges: charges(1, ledger.Dimensions{})}))
	}
	return l
}

func charges(count int, d ledger.Dimensions) []ledger.Charge {
	charges := make([]ledger.Charge, count)
	for i := range charges {
		charges[i] = ledger.Charge{ResourceType: typeName(i), Dimensions: d, Amount: 1}
	}
	return charges
}

func mustAdmit(b *testing.B, d ledger.Decision) {
	if d.Code != ledger.Admitted {
		b.Fatalf("%s: %+v", d.Code, d.Shortages)
	}
}

// BenchmarkReserve measures one Reserve and one Cancel. The ledger stays the same.
func BenchmarkReserve(b *testing.B) {
	eu := dimensionsOf("region", "eu", "tier", "gold")
	for _, c := range []struct {
		name      string
		selective bool
		inFlight  int
		charges   []ledger.Charge
	}{
		{"charges=1", false, 0, charges(1, ledger.Dimensions{})},
		{"charges=1/inflight=1000", false, 1000, charges(1, ledger.Dimensions{})},
		{"charges=20", false, 0, charges(20, ledger.Dimensions{})},
		{"charges=1/dimensions/selectors=1", false, 0, charges(1, eu)},
		{"charges=1/dimensions/selectors=2", true, 0, charges(1, eu)},
		{"charges=1/known-dimensions/selectors=2", true, 1, charges(1, ledger.Dimensions{})},
		{"charges=1/dimensions/selectors=2/inflight=1000", true, 1000, charges(1, eu)},
		{"charges=20/dimensions/selectors=2", true, 0, charges(20, eu)},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := ledgerFor(b, c.selective, c.inFlight)
			r := ledger.Reservation{Key: "policy/0b4a8fd6-6c2c-4f6e-9a53-1d3f0c4a7a11", Charges: c.charges}
			b.ReportAllocs()
			for b.Loop() {
				mustAdmit(b, l.Reserve(r))
				l.Cancel(r.Key, 0)
			}
		})
	}
}

// BenchmarkReserveObserve measures the life of a charge: it is pending, observed, and gone.
func BenchmarkReserveObserve(b *testing.B) {
	l := ledgerFor(b, false, 1000)
	r := ledger.Reservation{
		Key: "policy/0b4a8fd6-6c2c-4f6e-9a53-1d3f0c4a7a11", Charges: charges(1, ledger.Dimensions{}),
		Awaits: &ledger.Awaited{Kind: "pods", ID: "0b4a8fd6-6c2c-4f6e-9a53-1d3f0c4a7a11"},
	}
	demands := []ledger.Demand{{ResourceType: r.Charges[0].ResourceType, Amount: r.Charges[0].Amount, Objects: 1}}
	observe := func(at ledger.Version, demands []ledger.Demand) {
		o := ledger.Observation{Kind: "pods", Basis: ledger.Basis{Objects: at}, Demands: demands}
		if _, err := l.Observe(o, seen{Version: at}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for at := ledger.Version(1); b.Loop(); at += 2 {
		mustAdmit(b, l.Reserve(r))
		observe(at, demands)
		observe(at+1, nil)
	}
}

// BenchmarkDeny measures a denied Reserve.
func BenchmarkDeny(b *testing.B) {
	for name, d := range map[string]ledger.Dimensions{"plain": {}, "dimensions": dimensionsOf("region", "eu")} {
		b.Run(name, func(b *testing.B) {
			l := ledgerFor(b, !d.IsZero(), 1000)
			r := ledger.Reservation{Key: "key", Charges: []ledger.Charge{{ResourceType: typeName(0), Dimensions: d, Amount: 4 * plenty}}}
			b.ReportAllocs()
			for b.Loop() {
				if l.Reserve(r).Code != ledger.Exceeded {
					b.Fatal("admitted")
				}
			}
		})
	}
}

// BenchmarkContended has 16 selectors in a chain, each matching two neighboring regions, and 512 dimension sets take
// nearly everything. Charges come from both ends in turn: paying each one moves others along the chain. It measures
// two.
func BenchmarkContended(b *testing.B) {
	const regions, tiers = 16, 32
	region := func(i int) string { return fmt.Sprintf("region-%02d", i) }
	g := ledger.Grant{UID: "uid"}
	for i := range regions {
		g.Allowances = append(g.Allowances, ledger.Allowance{
			ResourceType: "gpu", Selector: selectorOf(in("region", region(i), region(min(i+1, regions-1)))), Amount: tiers*10 + 1})
	}
	l := ledger.New()
	if _, err := l.SetGrant(g); err != nil {
		b.Fatal(err)
	}
	for i := range regions * tiers {
		mustAdmit(b, l.Reserve(ledger.Reservation{Key: fmt.Sprint(i), Charges: []ledger.Charge{{
			ResourceType: "gpu", Dimensions: dimensionsOf("region", region(i%regions), "tier", fmt.Sprint(i/regions)), Amount: 10}}}))
	}
	request := func(end int, amount ledger.Amount) ledger.Reservation {
		return ledger.Reservation{Key: "key", Charges: []ledger.Charge{{ResourceType: "gpu", Dimensions: dimensionsOf("region", region(end)), Amount: amount}}}
	}
	ends := []ledger.Reservation{request(0, 1), request(regions-1, regions)}
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range ends {
			mustAdmit(b, l.Reserve(r))
			l.Cancel(r.Key, 0)
		}
	}
}

// BenchmarkSnapshot measures taking the plain form for a commit, and going back.
func BenchmarkSnapshot(b *testing.B) {
	l := ledgerFor(b, false, 1000)
	b.Run("Snapshot", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Snapshot()
		}
	})
	b.Run("Restore", func(b *testing.B) {
		snapshot := l.Snapshot()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ledger.Restore(snapshot); err != nil {
				b.Fatal(err)
			}
		}
	})
}
