package engine

// claimState is what matters of the claim that an object has of a policy. Where several apply, the first does.
type claimState int

const (
	// claimMissing: there is no claim.
	claimMissing claimState = iota
	// claimLost: there is no claim, although an amendment of one is in flight.
	claimLost
	// claimUnfinished: the claim was made from a reservation that is still in flight.
	claimUnfinished
	// claimSuperseded: the claim is to go, and is not being deleted yet.
	claimSuperseded
	// claimDeleting: the claim is being deleted.
	claimDeleting
	// claimUncharged: the claim is not granted, so that the ledger need not have its charge.
	claimUncharged
	// claimWithdrawn: the claim was granted while another create took over the reservation that it was made from.
	claimWithdrawn
	// claimSettled: the claim is granted, and stays.
	claimSettled
)

// demand is what the policy asks of the object now.
type demand int

const (
	// demandUnknown: the policy cannot be evaluated on the object.
	demandUnknown demand = iota
	// demandNone: the policy asks nothing.
	demandNone
	// demandElsewhere: the policy asks it of another consumer than the one that the claim charges.
	demandElsewhere
	// demandHere: the policy asks it of the consumer that the claim charges, or there is no claim.
	demandHere
)

// action is what is to be done about an object and a policy.
type action int

const (
	// doNothing leaves everything as it is.
	doNothing action = iota
	// doEvaluate finds out what the policy asks now.
	doEvaluate
	// doFindLost looks for the claim of an amendment, and ends the amendment if there is none.
	doFindLost
	// doFinish finishes the claim that was made from a reservation.
	doFinish
	// doSupersede takes the claim away.
	doSupersede
	// doCheckCharge takes the claim away unless the ledger has what it was made from.
	doCheckCharge
	// doRetain ends what is in flight, and the claim goes on holding what it holds.
	doRetain
	// doAdopt charges the object regardless of the limits.
	doAdopt
	// doAmend makes the claim hold what the policy asks.
	doAmend
)

// decideByClaim decides by the claim and the policy, before anybody evaluates the policy.
func decideByClaim(claim claimState, followsUpdates, usesRequest bool) action {
	switch claim {
	case claimLost:
		return doFindLost
	case claimUnfinished:
		return doFinish
	case claimSuperseded, claimWithdrawn:
		return doSupersede
	case claimDeleting:
		return doNothing // the object is looked at again once the claim is gone
	case claimUncharged:
		return doCheckCharge
	case claimMissing:
		if usesRequest {
			return doNothing // nobody can tell any more what the object was to cost
		}
	case claimSettled:
		if !followsUpdates {
			return doNothing
		}
	}
	return doEvaluate
}

// decideByDemand decides by what the policy asks, where [decideByClaim] says to evaluate it.
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
