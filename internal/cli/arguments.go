package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NoArguments rejects all arguments. With a hint, the error for a single argument ends with the hint, and %s in it
// stands for the argument.
func NoArguments(hint string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		switch {
		case len(arguments) == 0:
			return nil
		case hint != "" && len(arguments) == 1:
			return fmt.Errorf("%s takes no argument %q: %s", command.CommandPath(), arguments[0], fmt.Sprintf(hint, arguments[0]))
		default:
			return fmt.Errorf("%s takes no arguments, but got %s; see %s --help for its flags", command.CommandPath(), quote(arguments), command.CommandPath())
		}
	}
}

func quote(arguments []string) string {
	quoted := make([]string, 0, len(arguments))
	for _, argument := range arguments {
		quoted = append(quoted, fmt.Sprintf("%q", argument))
	}
	return strings.Join(quoted, ", ")
}

// explainFlagError adds suggestions to the error for an unknown flag.
func explainFlagError(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	command.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	if meant := DidYouMean("--", unknown.GetSpecifiedName(), names); meant != "" {
		return fmt.Errorf("%w; %s", err, meant)
	}
	return fmt.Errorf("%w; see %s --help", err, command.CommandPath())
}

// DidYouMean returns a question with the known names similar to an unknown one, each after the prefix, or "" if there
// are none.
func DidYouMean(prefix, unknown string, names []string) string {
	const distanceMax = 2
	of := &cobra.Command{SuggestionsMinimumDistance: distanceMax}
	for _, name := range names {
		of.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	alike := of.SuggestionsFor(unknown)
	if unknown == "" || len(alike) == 0 {
		return ""
	}
	return "did you mean " + prefix + strings.Join(alike, " or "+prefix) + "?"
}
