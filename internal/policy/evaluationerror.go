package policy

import (
	"errors"
	"fmt"
	"strings"
)

// EvaluationError means that an expression or template fails on an object.
type EvaluationError struct {
	// Path is the field of the policy.
	Path string
	// verb is the operation on the source of the field.
	verb, source string
	err          error
}

// Error implements error. It contains the source of the field, if there is one.
func (e *EvaluationError) Error() string {
	if e.source == "" {
		return fmt.Sprintf("%s %s: %v", e.verb, e.Path, e.err)
	}
	return fmt.Sprintf("%s %s %q: %v", e.verb, e.Path, excerpt(e.source), e.err)
}

// Unwrap returns the cause.
func (e *EvaluationError) Unwrap() error { return e.err }

// Reason returns a short form of the error, for readers of the policy. It names the field unless it names the read
// field of the object.
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

// placedError is a reason with its place in the source.
type placedError struct {
	at     place
	reason string
}

func (e *placedError) Error() string { return fmt.Sprintf("%v: %s", e.at, e.reason) }
