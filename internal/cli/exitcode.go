package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes of commands. Scripts distinguish the answer no from a failure only by those of [AnswersByExitCode].
const (
	exitDone   = 0
	exitNo     = 1
	exitFailed = 1
	// exitNoAnswer is the code of a failed command with AnswersByExitCode.
	exitNoAnswer = 2
)

// The annotations of [AnswersByExitCode] and [FailsAlso].
const (
	answers = "bursar.answers"
	fails   = "bursar.fails"
)

// AnswersByExitCode makes a command end with exit code 0 or 1 only after answering its question: 1 if it returns [No].
// It ends with 2 if it fails. The texts yes and no explain the answers in the help.
func AnswersByExitCode(command *cobra.Command, yes, no string) {
	annotate(command, answers, fmt.Sprintf("0 if %s, 1 if %s, and 2 for an error", yes, no))
}

// FailsAlso explains, for the help, when a command fails besides an error.
func FailsAlso(command *cobra.Command, when string) {
	annotate(command, fails, fmt.Sprintf("0 if it is done, and 1 for an error or if %s", when))
}

func annotate(command *cobra.Command, name, text string) {
	if command.Annotations == nil {
		command.Annotations = map[string]string{}
	}
	command.Annotations[name] = text
}

// ExitCodes explains the exit codes of a command. isSpecial is false for those of most commands.
func ExitCodes(command *cobra.Command) (text string, isSpecial bool) {
	for _, name := range []string{answers, fails} {
		if text := command.Annotations[name]; text != "" {
			return text, true
		}
	}
	return "0 if it is done, and 1 for an error", false
}

// explainExitCodes adds special exit codes to the help.
func explainExitCodes(command *cobra.Command) {
	if text, isSpecial := ExitCodes(command); isSpecial {
		command.Long = strings.TrimSpace(command.Long) + "\n\nThe exit code is " + text + "."
	}
	for _, child := range command.Commands() {
		explainExitCodes(child)
	}
}

// no is the answer of a command.
type no struct{ error }

// No returns the error that ends a command with the answer no. The text explains the answer.
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
