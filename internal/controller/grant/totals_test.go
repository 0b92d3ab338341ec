package grant

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

func consumerNamed(name string) quotav1alpha1.ConsumerRef {
	return quotav1alpha1.ConsumerRef{Kind: "Organization", Name: name}
}

// takes asks for one sum of projects.
func (t *Totals) takes(name string, sum, maxTotal ledger.Amount) bool {
	short := t.take(consumerNamed(name), []want{{"projects", sum, maxTotal}})
	return short == noneShort
}

func TestTotals(t *testing.T) {
	totals := NewTotals()
	wantTotal := func(reason string, want ledger.Amount) {
		t.Helper()
		if got := totals.Total("projects", ledger.Dimensions{}); got != want {
			t.Errorf("%s: the total is %d, want %d", reason, got, want)
		}
	}
	a := consumerNamed("a")
	totals.hold(a, sums{"projects": 4})
	totals.hold(a, sums{"projects": 3})
	wantTotal("a stored ledger may hold the larger of two sums", 4)
	if !totals.takes("a", 6, 10) || !totals.takes("b", 4, 10) {
		t.Error("10 do not fit into 10")
	}
	wantTotal("room is taken before the write", 10)
	if totals.takes("b", 5, 10) {
		t.Error("11 fit into 10")
	}
	if !totals.takes("c", 100, 0) {
		t.Error("there is a cap of 0")
	}
	totals.settle(consumerNamed("c"), nil, nil)
	wantTotal("a write that gives nothing gives the room back", 10)
	if diff := cmp.Diff([]string{"projects"}, totals.settle(a, sums{"projects": 5}, nil)); diff != "" {
		t.Errorf("freed (-want +got):\n%s", diff)
	}
	if freed := totals.settle(a, sums{"projects": 5}, nil); freed != nil {
		t.Errorf("the same sum frees %v", freed)
	}
	wantTotal("what is stored counts", 9)
	totals.settle(a, nil, nil)
	totals.settle(consumerNamed("b"), nil, nil)
	wantTotal("nothing counts without grants", 0)
	if len(totals.counted)+len(totals.totals) > 0 || len(totals.waiting) > 0 {
		t.Errorf("consumers without grants are remembered: %v, %v, %v", totals.counted, totals.totals, totals.waiting)
	}
}

// A consumer takes either all room or none.
func TestTotalsTakeAllOrNone(t *testing.T) {
	totals := NewTotals()
	totals.hold(consumerNamed("b"), sums{"seats": 7})
	short := totals.take(consumerNamed("a"), []want{{"projects", 5, 10}, {"seats", 4, 10}})
	if short != 1 {
		t.Errorf("want %d does not fit, want that of seats", short)
	}
	if got := totals.Total("projects", ledger.Dimensions{}); got != 0 {
		t.Errorf("%d projects are taken for a grant that does not count", got)
	}
}

// The sum of all consumers may exceed an amount.
func TestTotalsBeyondAmounts(t *testing.T) {
	totals := NewTotals()
	for _, name := range []string{"a", "b", "c"} {
		totals.hold(consumerNamed(name), sums{"projects": ledger.AmountMax})
	}
	if got := totals.Total("projects", ledger.Dimensions{}); got != ledger.AmountMax {
		t.Errorf("the total is %d", got)
	}
	if totals.takes("d", 1, ledger.AmountMax) {
		t.Error("1 fits beside more than an amount")
	}
	for _, name := range []string{"a", "b", "c"} {
		totals.settle(consumerNamed(name), sums{"projects": 1}, nil)
	}
	if got := totals.Total("projects", ledger.Dimensions{}); got != 3 {
		t.Errorf("the total is %d after the amounts were given back, want 3", got)
	}
}

func TestTotalsOrder(t *testing.T) {
	totals := NewTotals()
	totals.takes("full", 10, 10)
	for _, w := range []struct {
		name string
		sum  ledger.Amount
	}{{"z", 3}, {"large", 9}, {"y", 4}, {"gone", 1}, {"z", 2}, {"x", 1}} {
		if totals.takes(w.name, w.sum, 10) {
			t.Fatalf("%d fit beside 10", w.sum)
		}
	}
	totals.settle(consumerNamed("z"), nil, sums{"projects": 3})
	totals.settle(consumerNamed("gone"), nil, nil)
	totals.settle(consumerNamed("full"), sums{"projects": 6}, nil)
	for _, tt := range []struct {
		reason string
		got    []quotav1alpha1.ConsumerRef
		want   []string
	}{
		{"those that fit, in the order of waiting", totals.fitting("projects", 10), []string{"z", "y", "x"}},
		{"without a cap all fit", totals.fitting("projects", 0), []string{"z", "large", "y", "x"}},
		{"all that wait", totals.waiters(), []string{"z", "large", "y", "x"}},
		{"nobody waits for another type", totals.fitting("seats", 0), nil},
	} {
		var names []string
		for _, consumer := range tt.got {
			names = append(names, consumer.Name)
		}
		if diff := cmp.Diff(tt.want, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
		}
	}
}

// Consumers take and give back at once, and writes have unknown outcomes. The sums in the ledgers never exceed the cap.
func TestTotalsConcurrently(t *testing.T) {
	const consumers, rounds, most = 8, 300, 20
	totals := NewTotals()
	var mu sync.Mutex
	stored := map[string]ledger.Amount{}
	write := func(name string, sum ledger.Amount) {
		mu.Lock()
		defer mu.Unlock()
		stored[name] = sum
		var all ledger.Amount
		for _, each := range stored {
			all += each
		}
		if all > most {
			t.Errorf("the ledgers hold %d, the cap is %d", all, most)
		}
	}
	var group sync.WaitGroup
	begin := make(chan struct{})
	for i := range consumers {
		name, random := fmt.Sprint(i), rand.New(rand.NewPCG(1, uint64(i))) //nolint:gosec // the same in each run
		group.Go(func() {
			<-begin
			var held ledger.Amount
			for range rounds {
				sum := ledger.Amount(random.IntN(most))
				if sum > held && !totals.takes(name, sum, most) {
					continue
				}
				runtime.Gosched() // others take room before the write
				if outcome := random.IntN(4); outcome == 0 {
					continue // an error, and no write
				} else if write(name, sum); outcome == 1 {
					continue // an error in spite of a write, and the next look does not know
				}
				held = sum
				totals.settle(consumerNamed(name), sums{"projects": sum}, nil)
			}
			write(name, 0)
			totals.settle(consumerNamed(name), nil, nil)
		})
	}
	close(begin)
	group.Wait()
	if got := totals.Total("projects", ledger.Dimensions{}); got != 0 {
		t.Errorf("%d are taken in the end", got)
	}
}

// The total for some dimensions has the allowances that all claims with them may use, and a cap that is lower than the
// grants is reported once.
func TestTotalOfDimensions(t *testing.T) {
	cheap, err := ledger.NewSelector(ledger.Requirement{Key: "model", Operator: ledger.In, Values: []string{"a10"}})
	if err != nil {
		t.Fatal(err)
	}
	totals := NewTotals()
	give := func(name string, ofAny, ofCheap ledger.Amount) {
		grants := []ledger.Grant{{Allowances: []ledger.Allowance{{ResourceType: "gpus", Amount: ofAny}, {ResourceType: "gpus", Selector: cheap, Amount: ofCheap}}}}
		totals.keepSelective(consumerNamed(name), grants)
		totals.settle(consumerNamed(name), sumsOf(grants...), nil)
	}
	wantTotals := func(ofCheap, ofDear ledger.Amount) {
		t.Helper()
		for model, want := range map[string]ledger.Amount{"a10": ofCheap, "h200": ofDear} {
			d, err := ledger.NewDimensions(map[string]string{"model": model})
			if err != nil {
				t.Fatal(err)
			}
			if got := totals.Total("gpus", d); got != want {
				t.Errorf("the total of %s is %d, want %d", model, got, want)
			}
		}
	}
	give("a", 3, 10)
	give("b", 1, 20)
	wantTotals(34, 4)
	give("b", 2, 5)
	wantTotals(20, 5)
	for _, tt := range []struct {
		maxTotal, excess ledger.Amount
		isNew            bool
	}{{0, 0, false}, {20, 0, false}, {15, 5, true}, {15, 5, false}, {12, 8, true}, {20, 0, false}, {12, 8, true}} {
		if excess, isNew := totals.newExcess("gpus", tt.maxTotal); excess != tt.excess || isNew != tt.isNew {
			t.Errorf("beyond %d: got %d, new: %t; want %d, %t", tt.maxTotal, excess, isNew, tt.excess, tt.isNew)
		}
	}

	give("a", 0, 0)
	give("b", 0, 0)
	if totals.keepSelective(consumerNamed("a"), nil); len(totals.selected) > 0 {
		t.Errorf("amounts of 0 are kept: %v", totals.selected)
	}
}
