package cli

import (
	"errors"
	"fmt"
	"regexp"
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

// OneArgument requires one argument. The error for any other number says what the argument is.
func OneArgument(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) == 1 {
			return nil
		}
		return fmt.Errorf("%s takes one argument, %s, but got %d; see %[1]s --help for examples", command.CommandPath(), what, len(arguments))
	}
}

// InvalidValue describes an invalid value of a flag without the words of libraries. Other errors stay.
func InvalidValue(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	kinds := map[string]string{"int": "a whole number", "duration": "a duration such as 30s, 1m or 2h", "bool": "true or false"}
	if kind := kinds[invalid.GetFlag().Value.Type()]; kind != "" {
		return fmt.Errorf("%q is not %s", invalid.GetValue(), kind)
	}
	return err
}

// explainFlagError adds suggestions to the error for an unknown flag, and explains an invalid value.
func explainFlagError(command *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, InvalidValue(err))
	}
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

// suggested matches the lines of cobra after an unknown command.
var suggested = regexp.MustCompile(`\s+Did you mean this\?((\s+\S+)+)\s*$`)

// inOneLine returns an error text with the suggestions of cobra in its sentence.
func inOneLine(text string) string {
	found := suggested.FindStringSubmatchIndex(text)
	if found == nil {
		return text
	}
	return text[:found[0]] + "; did you mean " + strings.Join(strings.Fields(text[found[2]:found[3]]), " or ") + "?"
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
