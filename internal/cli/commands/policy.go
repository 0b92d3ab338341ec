package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/backtest"
	"github.com/bursar/bursar/internal/cli/policytest"
)

func newPolicyCommand(p cli.Program) *cobra.Command {
	command := &cobra.Command{
		Use: "policy", Short: "Test policies", Example: `  bursar policy test -f policies/ -f objects/`,
		Args: cli.NoArguments("did you mean bursar policy backtest %[1]s?"),
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newPolicyTestCommand(), newPolicyBacktestCommand(p))
	return command
}

func newPolicyTestCommand() *cobra.Command {
	var options policytest.Options
	var extra []string
	var out *output
	command := &cobra.Command{
		Use:   "test -f FILE...",
		Short: "Show the charges of policies for objects, without a server",
		Long: `Evaluate ClaimCreationPolicies for objects, both from files, and show the consumers with their charges. The command asks no server, so
it takes the objects as the files have them, without defaults.

The files may also have ResourceRegistrations, ResourceGrants and Namespaces. A resource type without a registration
allows the requests of the policies. A consumer without grants in the files has enough. Of a Namespace outside the files, policies see only
the name. The command fails if a policy fails on an object, in any mode.`,
		Example: `  # Who pays for these objects, and how much?
  bursar policy test -f policies/ -f objects/
  # As a certain user
  bursar policy test -f policies/ -f objects/ --as jane --as-group developers`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			var err error
			if options.User.Extra, err = extraOf(extra); err != nil {
				return err
			}
			return runPolicyTest(command, options, out)
		},
	}
	cli.AnswersByExitCode(command, "no policy would be rejected or fails, and every object fits", "not")
	command.Flags().StringSliceVarP(&options.Files.Filenames, "filename", "f", nil, "files or folders with policies and objects, or - for the standard input")
	command.Flags().BoolVarP(&options.Files.Recursive, "recursive", "R", false, "also read the folders in a folder")
	command.Flags().StringVar(&options.User.Username, "as", "", "the creator of the objects")
	command.Flags().StringSliceVar(&options.User.Groups, "as-group", nil, "the groups of the creator")
	command.Flags().StringArrayVar(&extra, "as-user-extra", nil, "an extra value of the creator, as KEY=VALUE; repeat it for more")
	out = addOutput(command, "tables")
	return command
}

// extraOf returns the extra values of a user from pairs such as KEY=VALUE.
func extraOf(pairs []string) (map[string]authenticationv1.ExtraValue, error) {
	extra := map[string]authenticationv1.ExtraValue{}
	for _, pair := range pairs {
		key, value, isPair := strings.Cut(pair, "=")
		if !isPair || key == "" {
			return nil, fmt.Errorf("--as-user-extra: %q is not KEY=VALUE", pair)
		}
		extra[key] = append(extra[key], value)
	}
	return extra, nil
}

// errTestFails ends the command after it has printed the result.
var errTestFails = cli.No("a policy would be rejected or fails, or not everything fits")

func runPolicyTest(command *cobra.Command, options policytest.Options, out *output) error {
	if err := out.check(); err != nil {
		return err
	}
	if len(options.Files.Filenames) == 0 {
		return errors.New("name the files with the policies and the objects: -f FILE")
	}
	result, err := policytest.Run(command.Context(), options)
	if err != nil {
		return err
	}
	if err := out.write(result.Print); err != nil {
		return err
	}
	if !result.Passed() {
		return errTestFails
	}
	return nil
}

func newPolicyBacktestCommand(p cli.Program) *cobra.Command {
	var out *output
	var s *server
	command := &cobra.Command{
		Use:   "backtest POLICY",
		Short: "List the existing objects that a policy would have denied, had it enforced",
		Long: `Replay the claims of all consumers of a ClaimCreationPolicy, oldest first, under the present grants, as if the policy had
enforced from the start. Print the denied objects, and the limits they need. Read it before you change a policy from Audit or Warn to
Enforce. Deleted objects do not count. For a policy without claims, the command reads the existing objects instead: what each demands
now stands for its claim.`,
		Example: `  bursar policy backtest maps`,
		Args:    cli.OneArgument("the name of a ClaimCreationPolicy"),
		RunE: func(command *cobra.Command, args []string) error {
			return runPolicyBacktest(command, s, args[0], out)
		},
	}
	cli.AnswersByExitCode(command, "none would have been denied", "some would")
	s = addServer(command, p)
	out = addOutput(command, "tables")
	completeArgument(command, namesOf(s, &quotav1alpha1.ClaimCreationPolicyList{}))
	return command
}

// errWouldDeny ends the command after it has printed the result.
var errWouldDeny = cli.No("some objects would have been denied")

func runPolicyBacktest(command *cobra.Command, s *server, policy string, out *output) error {
	if err := out.check(); err != nil {
		return err
	}
	api, err := s.connect()
	if err != nil {
		return err
	}
	result, err := during(command, "replaying the claims", func(ctx context.Context) (*backtest.Result, error) {
		return backtest.Run(ctx, api, policy, 0)
	})
	if err != nil {
		return err
	}
	if err := out.write(result.Print); err != nil {
		return err
	}
	if len(result.Denied) > 0 {
		return errWouldDeny
	}
	return nil
}
