package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/usage"
)

// nearDefault is the percentage of --near without a value.
const nearDefault = "80"

// watchInterval is the time between two reads of --watch.
const watchInterval = 2 * time.Second

// usageOptions are those of bursar usage.
type usageOptions struct {
	filter   usage.Filter
	output   *output
	sortBy   string
	selector string
	isWatch  bool
}

// newUsageCommand returns the command that reports the utilization of consumers.
func newUsageCommand(p cli.Program) *cobra.Command {
	var o usageOptions
	var s *server
	command := &cobra.Command{
		Use:   "usage",
		Short: "Show quota usage by consumer, the most used first",
		Long: `Show how much of their quota consumers use, the most used first: for each resource type the use, the limit, the available
amount, and the number of waiting claims. ResourceQuotaAllocations come with their caps, and QuotaIncreases below.`,
		Example: `  # All consumers visible to you
  bursar usage
  # One of them, or one resource type
  bursar usage --consumer project/web --type vcpus
  # Who holds it, and who waits
  bursar usage --consumer project/web --claims
  # Quota near its limit, again whenever it changes
  bursar usage --near=90 --watch
  # For a script
  bursar usage -o json | jq '.items[] | select(.utilization > 0.8)'`,
		Args: cli.NoArguments("for one consumer, bursar usage --consumer %[1]s"),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := errors.Join(o.check(), o.output.check(), s.checkNamespaces()); err != nil {
				return err
			}
			o.filter.Namespace = s.named()
			return runUsage(command, s, o)
		},
	}
	f := command.Flags()
	s = addServer(command, p)
	s.addNamespace(command, "only the quota in this namespace, with --claims also what uses quota in it (tenants: your own)")
	s.addAllNamespaces(command, "all namespaces, or an error if you may not see all")
	f.StringVar(&o.filter.Consumer, "consumer", "", "only the consumer with this NAME, or KIND/NAME")
	f.StringVar(&o.filter.ResourceType, "type", "", "only this resource type; the part after its last slash is enough")
	f.BoolVar(&o.filter.WithClaims, "claims", false, "list what uses quota instead: claims and objects that count, with amounts and states")
	f.IntVar(&o.filter.NearPercent, "near", 0, "only quota with at least this percentage of its limit in use, or with waiting claims")
	f.Lookup("near").NoOptDefVal = nearDefault
	f.StringVar(&o.sortBy, "sort-by", string(usage.SortByUtilization), "the order: "+orders())
	f.IntVar(&o.filter.Limit, "limit", 0, "at most this many rows (default: all)")
	f.BoolVarP(&o.isWatch, "watch", "w", false, "print it again whenever it changes, until interrupted")
	addSelector(command, &o.selector, "with --claims, only claims with these labels")
	o.output = addOutput(command, "a table", usage.FormatWide)
	completeValues(command, "sort-by", strings.Split(orders(), ", ")...)
	completeUsage(command, s)
	return command
}

func orders() string {
	names := make([]string, 0, len(usage.Orders))
	for _, order := range usage.Orders {
		names = append(names, string(order))
	}
	return strings.Join(names, ", ")
}

// check returns an error if the options are invalid.
func (o *usageOptions) check() error {
	o.filter.SortBy = usage.SortBy(o.sortBy)
	switch {
	case !slices.Contains(usage.Orders, o.filter.SortBy):
		return fmt.Errorf("--sort-by: there is no order %q; choose one of %s", o.sortBy, orders())
	case o.filter.Limit < 0:
		return errors.New("--limit: give a number of 1 or more, or leave it out for all")
	case o.filter.NearPercent < 0:
		return errors.New("--near: give a percentage, such as --near=90")
	}
	var err error
	o.filter.Selector, err = parseSelector(o.selector)
	if err == nil && o.selector != "" && !o.filter.WithClaims {
		err = errors.New("--selector: it selects claims, so give --claims, too")
	}
	return err
}

func runUsage(command *cobra.Command, s *server, o usageOptions) error {
	before := ""
	for {
		printed, isEmpty, err := usageText(command, s, &o)
		if err != nil {
			return err
		}
		if printed != before {
			out := command.OutOrStdout()
			if isEmpty {
				out = command.ErrOrStderr()
			} else if before != "" {
				printed = "\n" + printed
			}
			if _, err := fmt.Fprint(out, printed); err != nil {
				return err
			}
			before = strings.TrimPrefix(printed, "\n")
		}
		if !o.isWatch {
			return nil
		}
		select {
		case <-command.Context().Done():
			return nil
		case <-time.After(watchInterval):
		}
	}
}

// usageText reads the usage once and returns its text. Without any usage, the text is an explanation for the error
// output.
func usageText(command *cobra.Command, s *server, o *usageOptions) (text string, isEmpty bool, err error) {
	report, err := readUsage(command, s, &o.filter)
	if err != nil {
		return "", false, err
	}
	if report.IsEmpty() && o.output.isForPeople() {
		return noUsageMessage(o.filter) + "\n", true, nil
	}
	text, err = o.output.text(report.Print)
	return text, false, err
}

// readUsage reads the usage of a filter. If the user may not see all namespaces, it narrows the filter to the namespace
// of the kubeconfig, and reads again.
func readUsage(command *cobra.Command, s *server, filter *usage.Filter) (*usage.Report, error) {
	config, err := s.config(servers.Reads)
	if err != nil {
		return nil, err
	}
	api, err := clientOf(config)
	if err != nil {
		return nil, err
	}
	report, err := during(command, "reading the quota", func(ctx context.Context) (*usage.Report, error) {
		report, err := usage.Read(ctx, api, *filter)
		if !apierrors.IsForbidden(err) || filter.Namespace != "" || s.isEverywhere {
			return report, err
		}
		// Tenants read the namespace in their kubeconfig.
		if filter.Namespace, err = s.namespace(); err != nil {
			return nil, err
		}
		return usage.Read(ctx, api, *filter)
	})
	unknown := (*usage.UnknownError)(nil)
	switch {
	case errors.As(err, &unknown):
		return nil, err
	case apierrors.IsForbidden(err) && s.isEverywhere:
		return nil, fmt.Errorf("you may not see the quota of all namespaces; choose one of yours with --namespace, or leave --all-namespaces out for that of your kubeconfig: %w", err)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not see the quota in namespace %s; name another with --namespace: %w", filter.Namespace, err)
	case apimeta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the API server at %s serves no quota: install Bursar there, or choose another with --kubeconfig or --context", config.Host)
	case err != nil:
		return nil, fmt.Errorf("read the usage of quota: %w", err)
	}
	return report, nil
}

// noUsageMessage explains an empty answer, and names the namespace it is about.
func noUsageMessage(filter usage.Filter) string {
	what := "No quota is granted or used"
	switch {
	case filter.WithClaims:
		what = "Nothing was found that uses quota or waits for it"
	case filter.NearPercent > 0:
		what = fmt.Sprintf("Nothing uses %d%% of its limit, and no claim waits", filter.NearPercent)
	}
	if filter.Namespace != "" {
		return fmt.Sprintf("%s, as far as namespace %s shows it. Another namespace may show the quota of a consumer: ask an administrator.", what, filter.Namespace)
	}
	return what + "."
}
