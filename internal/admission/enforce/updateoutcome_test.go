package enforce

import (
	"errors"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
)

// Every kind of decision on an update, with and without a higher demand.
func TestUpdateOutcomeOf(t *testing.T) {
	failure := errors.New("the ledger did not answer")
	type outcomes struct{ enforced, notEnforced, enforcedDryRun, notEnforcedDryRun outcome }
	same := func(o outcome) outcomes { return outcomes{o, o, o, o} }
	taken := outcomes{outcomeTaken, outcomeTaken, outcomeNothing, outcomeNothing}
	impossible := outcomes{outcomeImpossible, outcomeNotApplicable, outcomeImpossible, outcomeNotApplicable}
	for name, tt := range map[string]struct {
		decision        ledger.Decision
		err             error
		asksMore, other outcomes
	}{
		"admitted":  {ledger.Decision{Code: ledger.Admitted}, nil, taken, taken},
		"overdraft": {ledger.Decision{Code: ledger.Admitted, Shortages: []ledger.Shortage{{}}}, nil, taken, taken},
		"existing":  {ledger.Decision{Code: ledger.Admitted, Existing: true}, nil, same(outcomeNothing), same(outcomeNothing)},
		"exceeded":  {ledger.Decision{Code: ledger.Exceeded}, nil, same(outcomeExceeded), same(outcomeNothing)},
		"not held":  {ledger.Decision{Code: ledger.NotHeld}, nil, same(outcomeUnknown), same(outcomeNothing)},
		"invalid":   {ledger.Decision{Code: ledger.ChargesTooMany}, nil, impossible, same(outcomeNothing)},
		"failed":    {ledger.Decision{}, failure, same(outcomeUnknown), same(outcomeNothing)},
	} {
		for _, demandsMore := range []bool{true, false} {
			want := tt.other
			if demandsMore {
				want = tt.asksMore
			}
			of := func(enforces, isDryRun bool) outcome {
				return updateOutcomeOf(tt.decision, tt.err, demandsMore, enforces, isDryRun)
			}
			if got := (outcomes{of(true, false), of(false, false), of(true, true), of(false, true)}); got != want {
				t.Errorf("%s, asks more %t: got %+v, want %+v", name, demandsMore, got, want)
			}
		}
	}
}
