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
