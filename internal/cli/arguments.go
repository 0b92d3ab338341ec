package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NoArguments rejects arguments of a command that has flags only. A hint may say what is meant by one, with %s for it.
func NoArguments(hint string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		switch {
		case len(arguments) == 0:
			return nil
		case hint != "" && len(arguments) == 1:
			return fmt.Errorf("%s takes no argument %q: %s", command.CommandPath(), arguments[0], fmt.Sprintf(hint, arguments[0]))
		default:
			return fmt.Errorf("%s takes no arguments, and got %s; see %s --help for its flags", command.CommandPath(), quote(arguments), command.CommandPath())
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

// explainFlagError adds to an unknown flag which one may be meant.
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

// DidYouMean asks whether one of the names is meant by one that is not known, or returns "" if none is like it. The prefix
// is put before names.
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
