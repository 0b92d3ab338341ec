package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/commandline"
	"github.com/bursar/bursar/internal/cli/importer"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/config"
)

// importFlags are the flags of the import besides those of the server.
type importFlags struct {
	options                         importer.Options
	mode                            string
	isRemoval                       bool
	sourceKubeconfig, sourceContext string
}

func newImportCommand(p cli.Program) *cobra.Command {
	var f importFlags
	var out *output
	var s *server
	systems := strings.Join(importer.Sources(), ", ")
	command := &cobra.Command{
		Use:   "import --from SYSTEM",
		Short: "Take over the limits of another quota system, without denying anything",
		Long: `Read the limits of another quota system on a cluster, and write registrations, grants and policies that count the same. The policies are
first in the mode Audit: they count and deny nothing, and the other system continues. The report lists the imported limits, those
without an equivalent here, those that would deny something if the policies enforced now, and the kinds that Bursar may read from then on.

Run it again to follow changes of the other system. It writes only differences, and keeps the modes of policies. A new policy gets the mode
of the others, so after --mode Enforce it denies at once; if their modes differ, it gets Audit. A limit whose object is gone there stays if its
policies enforce or warn, and is deleted otherwise; --prune deletes both. The report lists them, also with --dry-run.`,
		Example: `  # What would it take over, and what would it deny?
  bursar import --from resourcequota --dry-run
  bursar import --from resourcequota
  # Let the imported policies deny, and go back
  bursar import --from resourcequota --mode Enforce
  bursar import --from resourcequota --mode Audit
  bursar import --from resourcequota --remove`,
		Args: cli.NoArguments(""),
		RunE: func(command *cobra.Command, _ []string) error {
			return runImport(command, s, &f, out)
		},
	}
	s = addServer(command, p)
	flags := command.Flags()
	flags.StringVar(&f.options.From, "from", "", "the other system: "+systems)
	flags.BoolVar(&f.options.DryRun, "dry-run", false, "read everything, print the report, and write nothing; -o yaml prints the objects")
	flags.StringVar(&f.mode, "mode", "", "Audit, Warn or Enforce: only set the mode of the policies of an earlier import")
	flags.BoolVar(&f.isRemoval, "remove", false, "delete all objects of earlier imports from this system")
	flags.BoolVar(&f.options.Prune, "prune", false, "also delete enforced limits that the other system no longer has")
	flags.BoolVar(&f.options.InPlace, "in-place", false, "with --from milo: the objects on this server itself are for Milo, and its policies stop enforcing")
	flags.StringVar(&f.sourceKubeconfig, "source-kubeconfig", "", "kubeconfig of the cluster of the other system (default: the same server)")
	flags.StringVar(&f.sourceContext, "source-context", "", "context of the cluster of the other system, in its kubeconfig")
	flags.StringVar(&f.options.SystemNamespace, "system-namespace", config.DefaultSystemNamespace, "namespace of Bursar itself")
	out = addOutput(command, "a report")
	completeValues(command, "from", importer.Sources()...)
	completeValues(command, "mode", "Audit", "Warn", "Enforce")
	return command
}

func (f *importFlags) check() error {
	switch {
	case f.options.From == "":
		return fmt.Errorf("--from: name the other system: %s", strings.Join(importer.Sources(), ", "))
	case !slices.Contains(importer.Sources(), f.options.From):
		err := fmt.Errorf("--from: there is no system %q; choose %s", f.options.From, strings.Join(importer.Sources(), ", "))
		if meant := cli.DidYouMean("", f.options.From, importer.Sources()); meant != "" {
			err = fmt.Errorf("%w; %s", err, meant)
		}
		return err
	case f.mode != "" && f.isRemoval:
		return errors.New("--mode and --remove: choose one")
	case f.options.Prune && (f.mode != "" || f.isRemoval):
		return errors.New("--prune is for an import, without --mode and --remove")
	case f.options.InPlace && (f.options.From != "milo" || f.sourceKubeconfig != "" || f.sourceContext != ""):
		return errors.New("--in-place is for --from milo, without --source-kubeconfig and --source-context")
	default:
		return nil
	}
}

func runImport(command *cobra.Command, s *server, f *importFlags, out *output) error {
	if err := out.check(); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	intent := servers.Writes
	if f.options.DryRun {
		intent = servers.Reads
	}
	api, err := s.config(intent)
	if err != nil {
		return err
	}
	f.options.Config = api
	f.options.ImportCommand, f.options.ChangeCommand = again(command), again(command, importOnly...)
	switch {
	case f.isRemoval:
		return runImportRemoval(command, f)
	case f.mode != "":
		return runImportMode(command, f)
	}
	if f.options.SourceConfig, err = f.source(); err != nil {
		return err
	}
	report, err := during(command, "reading "+f.options.From, func(ctx context.Context) (*importer.Report, error) {
		return importer.Run(ctx, f.options)
	})
	if err != nil {
		if report != nil {
			err = fmt.Errorf("%w; a part is written: run the same command again", err)
		}
		return err
	}
	return out.write(report.Print)
}

// source returns the configuration for the cluster of the other system, or nil if it is the same server.
func (f *importFlags) source() (*rest.Config, error) {
	if f.sourceKubeconfig == "" && f.sourceContext == "" {
		return nil, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.sourceKubeconfig
	found, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.sourceContext}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--source-kubeconfig, --source-context: %w", err)
	}
	return found, nil
}

// importOnly are the flags that only an import has.
var importOnly = []string{"prune", "in-place", "source-kubeconfig", "source-context"}

// again returns a command with the flags given to it, for another run. It leaves out some flags, and those that the
// next run chooses itself.
func again(command *cobra.Command, without ...string) string {
	without = append([]string{"from", "dry-run", "output", "mode", "remove"}, without...)
	words := append(strings.Fields(command.CommandPath()), "--from", command.Flag("from").Value.String())
	command.Flags().Visit(func(flag *pflag.Flag) {
		values := []string{flag.Value.String()}
		if list, isList := flag.Value.(pflag.SliceValue); isList {
			values = list.GetSlice()
		}
		for _, value := range values {
			switch {
			case slices.Contains(without, flag.Name):
			case flag.NoOptDefVal == value:
				words = append(words, "--"+flag.Name)
			default:
				words = append(words, "--"+flag.Name+"="+value)
			}
		}
	})
	return commandline.Join(words...)
}

func runImportMode(command *cobra.Command, f *importFlags) error {
	count, err := importer.SetMode(command.Context(), f.options, quotav1alpha1.EnforcementMode(f.mode))
	if err != nil {
		return err
	}
	if count == 0 {
		return fmt.Errorf("there are no policies of an import from %s", f.options.From)
	}
	_, err = fmt.Fprintf(command.OutOrStdout(), "%s the mode %s%s.\n", message.Count(count, "policy has", "policies have"), f.mode, dry(f.options.DryRun))
	return err
}

func dry(isDry bool) string {
	if isDry {
		return " in a dry run: nothing was changed"
	}
	return ""
}

func runImportRemoval(command *cobra.Command, f *importFlags) error {
	removed, err := during(command, "deleting", func(ctx context.Context) (*importer.Removed, error) { return importer.Remove(ctx, f.options) })
	if removed != nil {
		err = errors.Join(printRemoved(command.OutOrStdout(), removed, f.options), err)
	}
	return err
}

func printRemoved(w io.Writer, removed *importer.Removed, o importer.Options) error {
	var text strings.Builder
	for _, resource := range removed.Resources {
		fmt.Fprintf(&text, "%8d  %s\n", removed.Counts[resource], resource)
	}
	if removed.InPlace > 0 {
		fmt.Fprintf(&text, "%8d  objects existed before the import: they stay, in the mode from before it\n", removed.InPlace)
	}
	switch {
	case len(removed.Resources) == 0 && removed.InPlace > 0:
	case len(removed.Resources) == 0:
		fmt.Fprintf(&text, "There is nothing of an import from %s.\n", o.From)
	case o.DryRun:
		text.WriteString("These would be deleted: this was a dry run.\n")
	default:
		text.WriteString("Deleted these. The other system is as it was.\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}
