package cli

import (
	"errors"

	"github.com/spf13/cobra"
)

// The exit codes of commands. Scripts tell the answer no from a failure only by those of [AnswersByExitCode].
const (
	exitDone   = 0
	exitNo     = 1
	exitFailed = 1
	// exitNoAnswer is that of a command with AnswersByExitCode that fails.
	exitNoAnswer = 2
)

// answers is the annotation of [AnswersByExitCode].
const answers = "bursar.answers"

// AnswersByExitCode makes a command end with exit code 0 or 1 only if it has answered its question: 1 if it returns [No],
// and 2 if it fails.
func AnswersByExitCode(command *cobra.Command) {
	if command.Annotations == nil {
		command.Annotations = map[string]string{}
	}
	command.Annotations[answers] = "true"
}

// no is the answer of a command.
type no struct{ error }

// No returns the error with which a command ends whose answer is no. The text says what that means.
func No(text string) error { return no{errors.New(text)} }

// exitCode returns the exit code of a command that ends with an error or nil.
func exitCode(command *cobra.Command, err error) int {
	answer := no{}
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &answer):
		return exitNo
	case command != nil && command.Annotations[answers] != "":
		return exitNoAnswer
	default:
		return exitFailed
	}
}
