package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/usage"
)

// newRequestsCommand returns the command to list requests for quota.
func newRequestsCommand(p cli.Program) *cobra.Command {
	var filter request.Filter
	var out *output
	var selector string
	var s *server
	command := &cobra.Command{
		Use:   "requests",
		Short: "List the pending requests for quota",
		Long:  "List the pending requests for quota, the oldest first. With --state or --all, also list decided requests.",
		Example: `  # Which requests wait for a decision?
  bursar requests
  # What became of mine?
  bursar requests -n organization-acme --all`,
		Args: cli.NoArguments("to see one, kubectl describe quotarequest %[1]s"),
		RunE: func(command *cobra.Command, _ []string) error {
			var err error
			if filter.Selector, err = parseSelector(selector); err != nil {
				return err
			}
			if err := errors.Join(out.check(), s.checkNamespaces(), checkFilter(filter)); err != nil {
				return err
			}
			filter.Namespace = s.named()
			return runRequests(command, s, filter, out)
		},
	}
	f := command.Flags()
	s = addServer(command, p)
	s.addNamespace(command, "only requests in this namespace (tenants: your own)")
	s.addAllNamespaces(command, "all namespaces, or an error if you may not see all")
	f.StringVar(&filter.State, "state", "", "only requests in this state: "+strings.Join(request.States, ", "))
	f.BoolVar(&filter.IsAll, "all", false, "requests in every state")
	addSelector(command, &selector, "only requests with these labels")
	out = addOutput(command, "a table", formatName, usage.FormatWide)
	completeValues(command, "state", request.States...)
	completeNamespaces(command, s)
	return command
}

// checkFilter returns an error if the flags are invalid together.
func checkFilter(filter request.Filter) error {
	switch {
	case filter.IsAll && filter.State != "":
		return errors.New("--all and --state: choose one")
	case filter.State != "" && !slices.Contains(request.States, filter.State):
		return fmt.Errorf("--state: there is no state %q; choose one of %s", filter.State, strings.Join(request.States, ", "))
	default:
		return nil
	}
}

func runRequests(command *cobra.Command, s *server, filter request.Filter, out *output) error {
	api, err := s.connect()
	if err != nil {
		return err
	}
	list, err := during(command, "reading the requests", func(ctx context.Context) (*quotav1alpha1.QuotaRequestList, error) {
		list, err := request.List(ctx, api, filter)
		if !apierrors.IsForbidden(err) || filter.Namespace != "" || s.isEverywhere {
			return list, err
		}
		// Tenants read the namespace in their kubeconfig.
		if filter.Namespace, err = s.namespace(); err != nil {
			return nil, err
		}
		return request.List(ctx, api, filter)
	})
	if err != nil {
		return err
	}
	if len(list.Items) == 0 && out.isForPeople() {
		_, err = fmt.Fprintln(command.ErrOrStderr(), cli.Words(command, filter.EmptyText()))
		return err
	}
	return out.write(func(w io.Writer, format usage.Format) error {
		return request.PrintList(w, list, format, filter.Namespace == "", time.Now())
	})
}

// newApproveCommand returns the command to approve a request.
func newApproveCommand(p cli.Program) *cobra.Command {
	return newDecideCommand(p, quotav1alpha1.DecisionApprove, &cobra.Command{
		Use:   "approve NAME [TYPE=AMOUNT...]",
		Short: "Approve a request for quota",
		Long: `Approve a request for quota, or less than it asks for. An amount is in base units: a limit if the request asks for a limit, and
otherwise an increase. 0 approves nothing of the resource type. Resource types without an amount are approved as asked. Nobody decides
on a request of their own.`,
		Example: `  bursar approve acme-x7k2p -n organization-acme
  # Less, and for a shorter time
  bursar approve acme-x7k2p -n organization-acme projects=5 --until 2027-03-31`,
	})
}

// newDenyCommand returns the command to deny a request.
func newDenyCommand(p cli.Program) *cobra.Command {
	return newDecideCommand(p, quotav1alpha1.DecisionDeny, &cobra.Command{
		Use:     "deny NAME --reason TEXT",
		Short:   "Deny a request for quota",
		Long:    "Deny a request for quota. The requester reads the reason. Nobody decides on a request of their own.",
		Example: `  bursar deny acme-x7k2p -n organization-acme --reason "not this year"`,
	})
}

func newDecideCommand(p cli.Program, decision quotav1alpha1.Decision, command *cobra.Command) *cobra.Command {
	var until, by string
	var out *output
	isApproval := decision == quotav1alpha1.DecisionApprove
	o := request.DecideOptions{Decision: decision}
	s := addServer(command, p)
	if isApproval {
		cli.FailsAlso(command, "the request is denied despite the approval")
	}
	command.Args = func(command *cobra.Command, arguments []string) error {
		if len(arguments) == 0 || !isApproval && len(arguments) > 1 {
			return fmt.Errorf("name one request: %s %s; bursar requests lists them", p.Name, command.Use)
		}
		return nil
	}
	command.RunE = func(command *cobra.Command, arguments []string) error {
		err := out.check()
		if err != nil {
			return err
		}
		if o.Amounts, err = request.ParseAmountsWithUnits(arguments[1:], 0); err != nil {
			return err
		}
		if o.Until, err = parsePeriod(until, by); err != nil {
			return err
		}
		o.Request.Name = arguments[0]
		if o.Request.Namespace, err = s.namespace(); err != nil {
			return err
		}
		return runDecide(command, s, o, out)
	}
	f := command.Flags()
	s.addNamespace(command, "the namespace of the request (default: the kubeconfig's)")
	f.StringVar(&o.Reason, "reason", "", "the reason, for the requester")
	if isApproval {
		f.StringVar(&until, "until", "", "approve until this date or time, such as 2027-03-31 (default: as asked)")
		f.StringVar(&by, "by", "", "approve for this long from now, such as 30d or 12h")
	}
	out = addOutput(command, "sentences", formatName)
	completeNamespaces(command, s)
	if isApproval {
		completeDecision(command, s)
	} else {
		completeArgument(command, namesOfRequests(s))
	}
	return command
}

func runDecide(command *cobra.Command, s *server, o request.DecideOptions, out *output) error {
	if err := o.Check(); err != nil {
		return err
	}
	api, err := s.connect()
	if err != nil {
		return err
	}
	if len(o.Amounts) > 0 {
		if o.Units, err = request.Units(command.Context(), api, o.Request.Namespace); err != nil {
			return err
		}
	}
	var decision *quotav1alpha1.QuotaDecision
	after, err := during(command, "waiting for the decision to take effect", func(ctx context.Context) (after *quotav1alpha1.QuotaRequest, err error) {
		decision, after, err = request.Decide(ctx, api, o)
		return after, err
	})
	if err != nil {
		return err
	}
	err = out.write(func(w io.Writer, format usage.Format) error {
		if format != "" {
			return request.Print(w, after, format)
		}
		_, err := io.WriteString(w, request.DecisionText(decision, after, o.Units))
		return err
	})
	if err != nil {
		return err
	}
	if o.Decision == quotav1alpha1.DecisionApprove && request.IsDenied(after) {
		return errors.New("the request is not approved")
	}
	return nil
}
