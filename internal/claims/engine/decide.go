package engine

// claimState is the state of an object's claim of a policy. If several apply, the first counts.
type claimState int

const (
	// claimPending: a reservation of the policy for the object is in flight, and somebody is making its claim.
	claimPending claimState = iota
	// claimMissing: there is no claim.
	claimMissing
	// claimSuperseded: the engine has to remove the claim, and nobody has deleted it yet.
	claimSuperseded
	// claimDeleting: the claim is being deleted, and does not stay for its object.
	claimDeleting
	// claimUncharged: the claim is not granted, so the ledger need not have its charge.
	claimUncharged
	// claimWithdrawn: the engine granted the claim while another create took over its reservation.
	claimWithdrawn
	// claimSettled: the claim is granted and holds its charge.
	claimSettled
)

// action is the next step for an object and a policy.
type action int

const (
	// doNothing changes nothing.
	doNothing action = iota
	// doWait waits for the claim in the making.
	doWait
	// doAdopt evaluates the policy, and charges the object regardless of the limits.
	doAdopt
	// doSupersede removes the claim.
	doSupersede
	// doCheckCharge removes the claim unless the ledger has its reservation.
	doCheckCharge
)

// decideByClaim decides by the claim and the policy.
func decideByClaim(claim claimState, usesRequest bool) action {
	switch claim {
	case claimPending:
		return doWait
	case claimSuperseded, claimWithdrawn:
		return doSupersede
	case claimUncharged:
		return doCheckCharge
	case claimMissing:
		if !usesRequest {
			return doAdopt
		}
	}
	// The demand by a request is no longer known. The engine reconciles the object again after the deletion of a claim.
	return doNothing
}
