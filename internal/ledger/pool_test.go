package ledger_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/internal/ledger"
)

// A pool agrees with the decisions, and looking at one changes none.
func TestPoolAgreesWithDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, s := newPair(t), drawn{t}
		for range 20 {
			p.step(s, false)
			for _, resourceType := range enforcedTypes {
				for _, d := range someDimensions {
					pool, all := p.ledger.Pool(resourceType, d), p.ledger.PoolOfAll(resourceType, d)
					what := resourceType + " " + d.String()
					p.same("Limit of "+what, pool.Limit, p.ledger.Matching(resourceType, d))
					if all.Limit > pool.Limit || all.Available > pool.Available || pool.Limit > p.ledger.LimitWith(resourceType, d) {
						t.Fatalf("%s: the pool of all claims is %+v, of exactly these %+v, and the limit with them %d",
							what, all, pool, p.ledger.LimitWith(resourceType, d))
					}
					if used := pool.Used + pool.Available; used < pool.Limit || p.model.Unpaid(resourceType).Sign() == 0 && used != pool.Limit {
						t.Fatalf("%s: %+v does not add up", what, pool)
					}
				}
			}
		}
	})
}

func TestPool(t *testing.T) {
	l := ledger.New()
	allow := func(amount ledger.Amount, requirements ...ledger.Requirement) ledger.Allowance {
		selector, err := ledger.NewSelector(requirements...)
		if err != nil {
			t.Fatal(err)
		}
		return ledger.Allowance{ResourceType: "gpus", Selector: selector, Amount: amount}
	}
	model := func(operator ledger.Operator, values ...string) ledger.Requirement {
		return ledger.Requirement{Key: "model", Operator: operator, Values: values}
	}
	_, err := l.SetGrant(ledger.Grant{UID: "1", Allowances: []ledger.Allowance{
		allow(4, model(ledger.In, "a10", "l40s")), allow(30, model(ledger.NotIn, "h200")), allow(3),
		allow(5, model(ledger.In, "b300"), ledger.Requirement{Key: "region", Operator: ledger.In, Values: []string{"eu"}}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	of := func(pairs ...string) ledger.Dimensions {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		d, err := ledger.NewDimensions(m)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	use(t, l, "gpus", of("model", "l40s"), 35)

	for name, tt := range map[string]struct {
		dimensions ledger.Dimensions
		all        bool
		want       ledger.Pool
		with       ledger.Amount
		reason     string
	}{
		"shared":      {of("model", "a10"), true, ledger.Pool{Limit: 37, Used: 35, Available: 2}, 37, "l40s takes the rest of what both share"},
		"none":        {of("model", "h200"), true, ledger.Pool{Limit: 3, Used: 1, Available: 2}, 3, "only the allowance for every claim pays for it"},
		"exactly":     {of(), false, ledger.Pool{Limit: 33, Used: 31, Available: 2}, 42, "a claim without a model is no h200"},
		"every claim": {of(), true, ledger.Pool{Limit: 3, Used: 1, Available: 2}, 42, "a claim may be for h200"},
		"region":      {of("model", "b300"), true, ledger.Pool{Limit: 33, Used: 31, Available: 2}, 38, "a b300 may be elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := l.Pool
			if tt.all {
				pool = l.PoolOfAll
			}
			if got := pool("gpus", tt.dimensions); got != tt.want {
				t.Errorf("the pool is %+v, want %+v: %s", got, tt.want, tt.reason)
			}
			if got := l.LimitWith("gpus", tt.dimensions); got != tt.with {
				t.Errorf("the limit with them is %d, want %d", got, tt.with)
			}
		})
	}

	use(t, l, "gpus", of("model", "l40s"), 39) // 2 more than all allowances can pay for
	if got, want := l.PoolOfAll("gpus", of("model", "h200")), (ledger.Pool{Limit: 3, Used: 5}); got != want {
		t.Errorf("with l40s beyond its limit, the pool of h200 is %+v, want %+v", got, want)
	}
}
