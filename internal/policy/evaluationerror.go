package policy

import (
	"errors"
	"fmt"
	"strings"
)

// EvaluationError says which expression or template of a policy cannot be applied to an object, and why.
type EvaluationError struct {
	// Path is the field of the policy.
	Path string
	// verb is what was being done with the source of the field.
	verb, source string
	err          error
}

// Error implements error. It shows the source of the field.
func (e *EvaluationError) Error() string {
	return fmt.Sprintf("%s %s %q: %v", e.verb, e.Path, excerpt(e.source), e.err)
}

// Unwrap returns why the field cannot be applied.
func (e *EvaluationError) Unwrap() error { return e.err }

// Reason is the error in short, for readers who have the policy before them. It names the field unless it
// names what the field reads.
func (e *EvaluationError) Reason() string {
	reason := e.err.Error()
	var placed *placedError
	if errors.As(e.err, &placed) {
		reason = placed.reason
	}
	if strings.HasPrefix(reason, ".") {
		return reason
	}
	return e.Path + ": " + reason
}

// placedError is a reason with the place in the source that it is about.
type placedError struct {
	at     place
	reason string
}

func (e *placedError) Error() string { return fmt.Sprintf("%v: %s", e.at, e.reason) }
