package engine

// claimState is the state of an object's claim of a policy. If several apply, the first counts.
type claimState int

const (
	// claimMissing: there is no claim.
	claimMissing claimState = iota
	// claimLost: there is no claim, although an amendment of one is in flight.
	claimLost
	// claimUnfinished: the reservation of the claim is still in flight.
	claimUnfinished
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

// demand is the current demand of the policy for the object.
type demand int

const (
	// demandUnknown: the evaluation of the policy failed for the object.
	demandUnknown demand = iota
	// demandNone: the policy demands nothing.
	demandNone
	// demandElsewhere: the policy demands quota of another consumer than the claim's.
	demandElsewhere
	// demandHere: the policy demands quota of the claim's consumer, or there is no claim.
	demandHere
)

// action is the next step for an object and a policy.
type action int

const (
	// doNothing changes nothing.
	doNothing action = iota
	// doEvaluate evaluates the policy.
	doEvaluate
	// doFindLost looks for the claim of an amendment, and ends the amendment if there is none.
	doFindLost
	// doFinish finishes the claim of a reservation in flight.
	doFinish
	// doSupersede removes the claim.
	doSupersede
	// doCheckCharge removes the claim unless the ledger has its reservation.
	doCheckCharge
	// doRetain ends the reservations in flight, and the claim retains its charges.
	doRetain
	// doAdopt charges the object regardless of the limits.
	doAdopt
	// doAmend changes the claim to the demand of the policy.
	doAmend
)

// decideByClaim decides by the claim and the policy, before the evaluation of the policy.
func decideByClaim(claim claimState, followsUpdates, usesRequest bool) action {
	switch claim {
	case claimLost:
		return doFindLost
	case claimUnfinished:
		return doFinish
	case claimSuperseded, claimWithdrawn:
		return doSupersede
	case claimDeleting:
		return doNothing // the engine reconciles the object again after the deletion of the claim
	case claimUncharged:
		return doCheckCharge
	case claimMissing:
		if usesRequest {
			return doNothing // the demand is no longer known
		}
	case claimSettled:
		if !followsUpdates {
			return doNothing
		}
	}
	return doEvaluate
}

// decideByDemand decides by the demand of the policy, after [decideByClaim] has returned doEvaluate.
func decideByDemand(hasClaim bool, asks demand) action {
	switch {
	case asks == demandUnknown:
		return doRetain
	case !hasClaim && asks == demandNone:
		return doNothing
	case !hasClaim:
		return doAdopt
	case asks == demandHere:
		return doAmend
	default:
		return doSupersede
	}
}
