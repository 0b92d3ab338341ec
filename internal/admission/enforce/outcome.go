package enforce

import "github.com/bursar/bursar/internal/ledger"

// outcome is what the decision on an update comes to.
type outcome int

const (
	// outcomeNothing: nothing was taken that may have to be given back, and nothing is to be said.
	outcomeNothing outcome = iota
	// outcomeTaken: the reservation is given back if the update is denied for another reason.
	outcomeTaken
	// outcomeUnknown: it could not be decided.
	outcomeUnknown
	// outcomeExceeded: there is no room.
	outcomeExceeded
	// outcomeImpossible: an enforced policy asks what no ledger can hold.
	outcomeImpossible
	// outcomeNotApplicable: a policy that is not enforced asks what no ledger can hold.
	outcomeNotApplicable
)

// updateOutcomeOf decides what a decision comes to. An update that asks no more than before always passes: what it frees is found
// out without the ledger, should that fail here.
func updateOutcomeOf(d ledger.Decision, err error, demandsMore, enforces, isDryRun bool) outcome {
	isAdmitted := err == nil && d.Code == ledger.Admitted
	switch {
	case !demandsMore && !isAdmitted:
		return outcomeNothing
	case err != nil, d.Code == ledger.NotHeld:
		return outcomeUnknown
	case d.Code == ledger.Exceeded:
		return outcomeExceeded
	case !isAdmitted && enforces:
		return outcomeImpossible
	case !isAdmitted:
		return outcomeNotApplicable
	case d.Existing || isDryRun:
		return outcomeNothing
	default:
		return outcomeTaken
	}
}
