package enforce

import "github.com/bursar/bursar/internal/ledger"

// outcome is the result of the decision on an update.
type outcome int

const (
	// outcomeNothing: no reservation to roll back, and nothing to report.
	outcomeNothing outcome = iota
	// outcomeTaken: if another reason denies the update, the handler rolls back the reservation.
	outcomeTaken
	// outcomeUnknown: no decision about the update was possible.
	outcomeUnknown
	// outcomeExceeded: the quota does not suffice.
	outcomeExceeded
	// outcomeImpossible: an enforced policy demands amounts too large for a ledger.
	outcomeImpossible
	// outcomeNotApplicable: an unenforced policy demands amounts too large for a ledger.
	outcomeNotApplicable
)

// updateOutcomeOf returns the outcome of a decision. An update without a higher demand always passes: the engine
// finds the freed amounts without the ledger if the ledger fails here.
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
