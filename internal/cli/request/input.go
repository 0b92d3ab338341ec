package request

import (
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/quotarequest"
)

// InputError is an error in a person's input. A page shows the text without the flag.
type InputError struct {
	// Flag is the flag of the command, such as --for, or empty.
	Flag string
	// Text is a sentence without the flag.
	Text string
}

// Error returns the text as a command prints it.
func (e *InputError) Error() string {
	if e.Flag == "" {
		return e.Text
	}
	return e.Flag + ": " + e.Text
}

func invalid(flag, format string, arguments ...any) *InputError {
	return &InputError{Flag: flag, Text: fmt.Sprintf(format, arguments...)}
}

// ParseEnd parses an end of quota: a date, which stands for midnight UTC at its start, or a time. An empty text is the
// zero time.
func ParseEnd(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if parsed, err := time.Parse(layout, text); err == nil {
			return parsed, nil
		}
	}
	return time.Time{}, invalid("--until", "%q is neither a date such as 2027-03-31 nor a time such as 2027-03-31T18:00:00Z", text)
}

// State returns the reason of the condition Approved, or "" if there is none yet.
func State(request *quotav1alpha1.QuotaRequest) string { return stateOf(request) }

// Message returns the message of the condition Approved, in one line, or "".
func Message(request *quotav1alpha1.QuotaRequest) string { return messageOf(request) }

// Counts reports whether a decision is among those behind the state of a request.
func Counts(request *quotav1alpha1.QuotaRequest, decision *quotav1alpha1.QuotaDecision) bool {
	return hasTakenUp(request, decision)
}

// DecidedAt returns when a request ended, or the zero time.
func DecidedAt(request *quotav1alpha1.QuotaRequest) time.Time {
	if c := apimeta.FindStatusCondition(request.Status.Conditions, quotav1alpha1.ConditionApproved); c != nil && quotarequest.IsFinal(request) {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}
