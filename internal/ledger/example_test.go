package ledger_test

import (
	"fmt"

	"github.com/bursar/bursar/internal/ledger"
)

// A grant gives four GPUs anywhere and two more in the EU. Three used in the EU take one of the four, and leave three
// for elsewhere.
func ExampleLedger_Reserve() {
	inEU, err := ledger.NewSelector(ledger.Requirement{Key: "region", Operator: ledger.In, Values: []string{"eu"}})
	if err != nil {
		panic(err)
	}
	eu, err := ledger.NewDimensions(map[string]string{"region": "eu"})
	if err != nil {
		panic(err)
	}
	l := ledger.New()
	if _, err := l.SetGrant(ledger.Grant{UID: "8c1f", Name: "base", Allowances: []ledger.Allowance{
		{ResourceType: "gpu", Amount: 4},
		{ResourceType: "gpu", Selector: inEU, Amount: 2},
	}}); err != nil {
		panic(err)
	}
	first := l.Reserve(ledger.Reservation{Key: "a", Charges: []ledger.Charge{{ResourceType: "gpu", Dimensions: eu, Amount: 3}}})
	second := l.Reserve(ledger.Reservation{Key: "b", Charges: []ledger.Charge{{ResourceType: "gpu", Amount: 4}}})
	fmt.Println(first.Code, second.Code)
	for _, s := range second.Shortages {
		fmt.Printf("requested %d %s, used %d of %d, available %d\n", s.Requested, s.ResourceType, s.Used, s.Limit, s.Available)
	}
	// Output:
	// Admitted Exceeded
	// requested 4 gpu, used 3 of 6, available 3
}

// A consumer may have two maps. A request for one is pending until its object is observed.
func ExampleLedger_Observe() {
	l := ledger.New()
	if _, err := l.SetGrant(ledger.Grant{UID: "8c1f", Name: "base", Allowances: []ledger.Allowance{{ResourceType: "maps", Amount: 2}}}); err != nil {
		panic(err)
	}
	l.Reserve(ledger.Reservation{
		Key: "create", Charges: []ledger.Charge{{ResourceType: "maps", Amount: 1}},
		Awaits: &ledger.Awaited{Kind: "configmaps", ID: "uid-1"},
	})
	show := func(when string) {
		a := l.Account("maps")
		fmt.Printf("%s: %d used, %d pending\n", when, a.Used, a.Reserved)
	}
	show("admitted")

	observe := func(version ledger.Version, maps ledger.Amount, v ledger.Visibility) {
		o := ledger.Observation{Kind: "configmaps", Basis: ledger.Basis{Objects: version}}
		if maps > 0 {
			o.Demands = []ledger.Demand{{ResourceType: "maps", Amount: maps, Objects: int64(maps)}}
		}
		if _, err := l.Observe(o, seen(v)); err != nil {
			panic(err)
		}
	}
	observe(10, 2, ledger.Visibility{}) // two others exist that nobody asked about
	show("version 10")
	observe(11, 3, ledger.Visibility{Version: 11})
	show("version 11")
	observe(9, 0, ledger.Visibility{}) // somebody lags
	show("version 9")
	observe(12, 1, ledger.Visibility{})
	show("version 12")
	// Output:
	// admitted: 0 used, 1 pending
	// version 10: 2 used, 1 pending
	// version 11: 3 used, 0 pending
	// version 9: 3 used, 0 pending
	// version 12: 1 used, 0 pending
}
