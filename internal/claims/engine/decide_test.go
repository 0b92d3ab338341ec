package engine

import "testing"

// Every combination of the facts has one line.
func TestDecideByClaim(t *testing.T) {
	type facts struct {
		claim                       claimState
		followsUpdates, usesRequest bool
	}
	want := map[facts]action{
		{claimMissing, false, false}:    doEvaluate,
		{claimMissing, false, true}:     doNothing,
		{claimMissing, true, false}:     doEvaluate,
		{claimMissing, true, true}:      doNothing, // no policy with updates may use the request
		{claimLost, false, false}:       doFindLost,
		{claimLost, false, true}:        doFindLost,
		{claimLost, true, false}:        doFindLost,
		{claimLost, true, true}:         doFindLost,
		{claimUnfinished, false, false}: doFinish,
		{claimUnfinished, false, true}:  doFinish,
		{claimUnfinished, true, false}:  doFinish,
		{claimUnfinished, true, true}:   doFinish,
		{claimSuperseded, false, false}: doSupersede,
		{claimSuperseded, false, true}:  doSupersede,
		{claimSuperseded, true, false}:  doSupersede,
		{claimSuperseded, true, true}:   doSupersede,
		{claimDeleting, false, false}:   doNothing,
		{claimDeleting, false, true}:    doNothing,
		{claimDeleting, true, false}:    doNothing,
		{claimDeleting, true, true}:     doNothing,
		{claimUncharged, false, false}:  doCheckCharge,
		{claimUncharged, false, true}:   doCheckCharge,
		{claimUncharged, true, false}:   doCheckCharge,
		{claimUncharged, true, true}:    doCheckCharge,
		{claimWithdrawn, false, false}:  doSupersede,
		{claimWithdrawn, false, true}:   doSupersede,
		{claimWithdrawn, true, false}:   doSupersede,
		{claimWithdrawn, true, true}:    doSupersede,
		{claimSettled, false, false}:    doNothing,
		{claimSettled, false, true}:     doNothing,
		{claimSettled, true, false}:     doEvaluate,
		{claimSettled, true, true}:      doEvaluate,
	}
	for claim := claimMissing; claim <= claimSettled; claim++ {
		for _, followsUpdates := range []bool{false, true} {
			for _, usesRequest := range []bool{false, true} {
				f := facts{claim, followsUpdates, usesRequest}
				wanted, listed := want[f]
				if got := decideByClaim(claim, followsUpdates, usesRequest); !listed || got != wanted {
					t.Errorf("%+v: got %d, want %d (listed: %t)", f, got, wanted, listed)
				}
			}
		}
	}
}

func TestDecideByDemand(t *testing.T) {
	for _, tt := range []struct {
		hasClaim bool
		asks     demand
		want     action
	}{
		{false, demandUnknown, doRetain},
		{false, demandNone, doNothing},
		{false, demandElsewhere, doAdopt},
		{false, demandHere, doAdopt},
		{true, demandUnknown, doRetain},
		{true, demandNone, doSupersede},
		{true, demandElsewhere, doSupersede},
		{true, demandHere, doAmend},
	} {
		if got := decideByDemand(tt.hasClaim, tt.asks); got != tt.want {
			t.Errorf("has a claim: %t, asks %d: got %d, want %d", tt.hasClaim, tt.asks, got, tt.want)
		}
	}
}
