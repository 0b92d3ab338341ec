package engine

import "testing"

// Every combination of the facts has one line.
func TestDecideByClaim(t *testing.T) {
	for claim, want := range map[claimState]struct{ byObject, byRequest action }{
		claimPending:    {doWait, doWait},
		claimMissing:    {doAdopt, doNothing},
		claimSuperseded: {doSupersede, doSupersede},
		claimDeleting:   {doNothing, doNothing},
		claimUncharged:  {doCheckCharge, doCheckCharge},
		claimWithdrawn:  {doSupersede, doSupersede},
		claimSettled:    {doNothing, doNothing},
	} {
		if got := decideByClaim(claim, false); got != want.byObject {
			t.Errorf("claim %d, demand by the object: got %d, want %d", claim, got, want.byObject)
		}
		if got := decideByClaim(claim, true); got != want.byRequest {
			t.Errorf("claim %d, demand by the request: got %d, want %d", claim, got, want.byRequest)
		}
	}
}
