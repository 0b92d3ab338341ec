package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/usage"
)

// waitEndless is the value of a bare --wait.
const waitEndless = "0s"

// requestFlags are those of bursar request.
type requestFlags struct {
	options                    request.Options
	until, by, wait, withdrawn string
	output                     *output
	name                       string
	dimensions                 []string
}

// newRequestCommand returns the command that asks for quota.
func newRequestCommand(p cli.Program) *cobra.Command {
	var o requestFlags
	var s *server
	command := &cobra.Command{
		Use:   "request (TYPE=AMOUNT... --for KIND/NAME | -) --reason TEXT",
		Short: "Ask for more quota",
		Long: `Ask for more quota for a consumer: for a limit, or with a plus for an increase. Amounts are in base units, or have the display unit
of the quota: cpus=+7cores. An approver or a policy approves or denies the request. The command waits up to 10 s for the state of the
request, and with --wait for the decision. The dash reads a printed denial from the standard input, and makes the request in its
advice, for one object.`,
		Example: `  # A limit of 10 projects
  bursar request projects=10 --for organization/acme -n organization-acme --reason "two teams more"
  # More memory for a month, once it is decided
  bursar request memory=+64Gi --for project/web -n web --by 30d --reason "the fair" --wait
  # What was denied
  kubectl apply -f app.yaml 2>&1 | bursar request - --reason "a release"
  # Never mind
  bursar request --withdraw web-x7k2p -n web`,
		Args: cobra.ArbitraryArgs,
		RunE: func(command *cobra.Command, arguments []string) error {
			if o.withdrawn != "" {
				return runWithdraw(command, s, &o, arguments)
			}
			return runRequest(command, s, &o, arguments)
		},
	}
	f := command.Flags()
	cli.FailsAlso(command, "the request is denied by then, or with --wait not decided in time")
	s = addServer(command, p)
	s.addNamespace(command, "the namespace with the quota of the consumer (default: the kubeconfig's)")
	f.StringVar(&o.options.For, "for", "", "the consumer, as KIND/NAME or KIND.GROUP/NAME (default: the only one in the namespace)")
	f.StringVar(&o.name, "name", "", "the name of the request (default: generated)")
	f.StringVar(&o.options.Reason, "reason", "", "the reason, for the approvers")
	f.StringVar(&o.until, "until", "", "the end of the quota: a date (its midnight UTC), or a time (default: never)")
	f.StringVar(&o.by, "by", "", "how long you need the quota from now, such as 30d or 12h")
	f.StringArrayVar(&o.dimensions, "dimension", nil, "only for this dimension, as KEY=VALUE; may be repeated")
	f.StringVar(&o.wait, "wait", "", "wait for the decision, at most for a duration such as --wait=5m")
	f.Lookup("wait").NoOptDefVal = waitEndless
	f.StringVar(&o.withdrawn, "withdraw", "", "withdraw the request with this name instead")
	o.output = addOutput(command, "sentences", formatName)
	complete(command, "namespace", grantsSeen(s, namespaceShown))
	complete(command, "for", grantsSeen(s, consumerOf))
	command.ValidArgsFunction = func(command *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return completions(command, amountsOf(s), begun)
	}
	completeFlagRequests(command, s, "withdraw")
	return command
}

// complete reads the arguments and, for a dash, the standard input.
func (o *requestFlags) complete(command *cobra.Command, s *server, arguments []string) error {
	if err := o.output.check(); err != nil {
		return err
	}
	if slices.Contains(arguments, "-") {
		if len(arguments) > 1 || o.options.For != "" || len(o.dimensions) > 0 {
			return errors.New("the dash takes amounts, consumer and dimensions from the denial: leave the others out")
		}
		text, err := io.ReadAll(io.LimitReader(command.InOrStdin(), inputBytesMax))
		if err != nil {
			return fmt.Errorf("read the denial: %w", err)
		}
		reason := o.options.Reason
		if o.options, err = request.ParseDenial(string(text)); err != nil {
			return err
		}
		if s.named() != "" && s.named() != o.options.Namespace {
			return fmt.Errorf("--namespace: the denial asks for a request in namespace %s", o.options.Namespace)
		}
		o.options.Reason = reason
	} else {
		var err error
		if o.options.Amounts, err = request.ParseAmountsWithUnits(arguments, 1); err != nil {
			return err
		}
		if o.options.Dimensions, err = request.ParseDimensions(o.dimensions); err != nil {
			return err
		}
	}
	o.options.Name = o.name
	var err error
	if o.options.Until, err = parsePeriod(o.until, o.by); err != nil {
		return err
	}
	if o.options.Namespace == "" {
		o.options.Namespace, err = s.namespace()
	}
	return err
}

func runRequest(command *cobra.Command, s *server, o *requestFlags, arguments []string) error {
	timeout, untilDecided := request.StateTimeout, o.wait != ""
	if untilDecided {
		var err error
		if timeout, err = parseDays("wait", o.wait); err != nil {
			return err
		}
	}
	if err := o.complete(command, s, arguments); err != nil {
		return err
	}
	if err := o.options.Check(); err != nil {
		return err
	}
	api, err := s.connect()
	if err != nil {
		return err
	}
	created, err := request.Create(command.Context(), api, o.options)
	if err != nil {
		return err
	}
	seen, err := during(command, "waiting for the state of the request", func(ctx context.Context) (*quotav1alpha1.QuotaRequest, error) {
		return request.Wait(ctx, api, client.ObjectKeyFromObject(created), untilDecided, timeout)
	})
	if err != nil {
		return fmt.Errorf("the request exists: %w", err)
	}
	err = o.output.write(func(w io.Writer, format usage.Format) error { return request.Print(w, seen, format) })
	if err != nil {
		return err
	}
	switch {
	case request.IsDenied(seen):
		return errors.New("the request is not approved")
	case untilDecided && !request.IsDecided(seen):
		return fmt.Errorf("the request is not decided after %s", o.wait)
	default:
		return nil
	}
}

func runWithdraw(command *cobra.Command, s *server, o *requestFlags, arguments []string) error {
	if len(arguments) > 0 {
		return errors.New("--withdraw takes no amounts: withdraw the request first, and ask again")
	}
	namespace, err := s.namespace()
	if err != nil {
		return err
	}
	api, err := s.connect()
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: namespace, Name: o.withdrawn}
	if err := request.Withdraw(command.Context(), api, key); err != nil {
		return err
	}
	_, err = fmt.Fprintf(command.OutOrStdout(), "You withdrew QuotaRequest %s.\n", key)
	return err
}
