package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/backup"
	"github.com/bursar/bursar/internal/cli/export"
	"github.com/bursar/bursar/internal/cli/restore"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/usage"
)

// untyped are clients for objects of any kind.
type untyped struct {
	config    *rest.Config
	discovery discovery.DiscoveryInterface
	dynamic   dynamic.Interface
}

// untyped connects to the API server.
func (s *server) untyped(does servers.Intent) (*untyped, error) {
	config, err := s.config(does)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the API server decides how much it serves at a time
	u := &untyped{config: config}
	var errDynamic error
	u.discovery, err = discovery.NewDiscoveryClientForConfig(config)
	u.dynamic, errDynamic = dynamic.NewForConfig(config)
	if err := errors.Join(err, errDynamic); err != nil {
		return nil, fmt.Errorf("reach the API server at %s: %w", config.Host, err)
	}
	return u, nil
}

func newExportCommand(p cli.Program) *cobra.Command {
	var o export.Options
	var out *output
	var s *server
	command := &cobra.Command{
		Use:   "export [DIR]",
		Short: "Write the configuration of quota as files, for a repository or another cluster",
		Long: `Write all declared objects of Bursar's kinds, such as registrations, grants, policies, allocations and alerts. The command sorts
them, and leaves out the fields of the server. Apply them to another cluster with kubectl. With DIR, the command writes a file for each
kind; otherwise it prints all.

It also writes the consumers, roles and protection of bursar import. The command leaves out grants of policies, because the policies make them again.
Claims, requests and the figures of quota are not configuration: bursar backup has them.`,
		Example: `  bursar export > quota.yaml
  # A file for each kind, for git
  bursar export quota/
  # To another cluster
  bursar export --namespaces | kubectl --context other apply -f -`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if len(args) > 0 && out.value != "" {
				return errors.New("DIR and --output: choose one")
			}
			return runExport(command, s, o, args, out)
		},
	}
	s = addServer(command, p)
	command.Flags().BoolVar(&o.WithNamespaces, "namespaces", false, "also write the namespaces of these objects, with their labels and annotations")
	out = addOutput(command, "YAML documents")
	return command
}

func runExport(command *cobra.Command, s *server, o export.Options, args []string, out *output) error {
	api, err := s.untyped(servers.Reads)
	if err != nil {
		return err
	}
	o.Discovery, o.Dynamic = api.discovery, api.dynamic
	set, err := during(command, "reading the objects", func(ctx context.Context) (*export.Set, error) { return export.Read(ctx, o) })
	if err != nil {
		return err
	}
	if len(args) == 0 {
		if out.isForPeople() {
			return set.Print(command.OutOrStdout(), usage.FormatYAML) // never cut to the width of a terminal
		}
		return out.write(set.Print)
	}
	names, err := set.WriteTo(args[0])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(command.OutOrStdout(), "Wrote %s to %s in %s.\n",
		message.Count(set.Count(), "object", "objects"), message.Count(len(names), "file", "files"), args[0])
	return err
}

func newBackupCommand(p cli.Program) *cobra.Command {
	var s *server
	command := &cobra.Command{
		Use:   "backup (FILE | DIR/)",
		Short: "Write all quota, with claims and requests, into a file to restore",
		Long: `Write all declared objects, the claims with their granted amounts, and the requests with the decisions on them. Quota selects
namespaces by labels, so all namespaces come along, and so do the consumers, roles and protection of bursar import. The backup is a compressed file or, for
an existing directory or a name with a final slash, a directory. All of it shows one instant, even while objects are created.

The backup has neither Secrets nor the objects of the claims: use the backup of your cluster for them.`,
		Example: `  bursar backup quota.tar.gz
  bursar restore quota.tar.gz --context other`,
		Args: cli.OneArgument("the FILE or DIR/ to write, such as quota.tar.gz"),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := s.untyped(servers.Reads)
			if err != nil {
				return err
			}
			manifest, err := during(command, "reading the objects", func(ctx context.Context) (*backup.Manifest, error) {
				return backup.Write(ctx, backup.Options{Discovery: api.discovery, Dynamic: api.dynamic, Path: args[0], Version: p.Version})
			})
			if err != nil {
				return err
			}
			return printManifest(command.OutOrStdout(), manifest, args[0])
		},
	}
	s = addServer(command, p)
	return command
}

func printManifest(w io.Writer, manifest *backup.Manifest, path string) error {
	var text strings.Builder
	for _, file := range manifest.Files {
		if file.Objects > 0 {
			fmt.Fprintf(&text, "%8d  %s\n", file.Objects, file.Resource)
		}
	}
	if manifest.ResourceVersion == "" {
		text.WriteString("The kinds show different instants, because the API server kept no state for long enough. A restore handles that.\n")
	}
	fmt.Fprintf(&text, "Wrote %s to %s.\n", message.Count(manifest.Objects(), "object", "objects"), path)
	_, err := io.WriteString(w, text.String())
	return err
}

// restoreTimeout is longer than all objects of a large cluster take to count.
const restoreTimeout = 6 * time.Minute

func newRestoreCommand(p cli.Program) *cobra.Command {
	var o restore.Options
	var out *output
	var s *server
	command := &cobra.Command{
		Use:   "restore (FILE | DIR)",
		Short: "Put a backup into a server, and wait until its ledgers agree",
		Long: `Put a backup into a server without quota, such as another cluster, where Bursar runs. First install your CRDs, and restore consumers,
namespaces and objects. The command grants claims as they were, without another decision. A claim of a policy goes to the object of the same kind
and name. If there is no such object, the command leaves the claim out: Bursar decides on the object at its creation, and may deny it.

The command changes nothing if the server does not serve the kinds of consumers, or those in the triggers of policies.

The command warns about existing namespaces with other labels or annotations than in the backup, if quota may select namespaces by them.

Only Bursar writes granted claims. So the command acts as Bursar, and you must be an administrator of the cluster. After an interruption,
run it again: it leaves out existing objects.`,
		Example: `  # What would be restored?
  bursar restore quota.tar.gz --context other --dry-run
  bursar restore quota.tar.gz --context other --create-namespaces`,
		Args: cli.OneArgument("the FILE or DIR of a backup, such as quota.tar.gz"),
		RunE: func(command *cobra.Command, args []string) error {
			o.Path = args[0]
			return runRestore(command, s, o, out)
		},
	}
	cli.FailsAlso(command, "the ledgers do not agree in time")
	s = addServer(command, p)
	f := command.Flags()
	f.BoolVar(&o.DryRun, "dry-run", false, "check everything, and change nothing")
	f.BoolVar(&o.Overwrite, "overwrite", false, "replace declared objects that differ from those of the backup, also in labels or annotations, and keep all others")
	f.BoolVar(&o.CreateNamespaces, "create-namespaces", false, "create missing namespaces of the objects, with their labels and annotations")
	f.StringVar(&o.BursarUser, "bursar-user", "", "the user name of Bursar on the server (default: the name in its webhooks)")
	f.DurationVar(&o.Timeout, "timeout", restoreTimeout, "how long to wait until the ledgers agree")
	out = addOutput(command, "tables")
	return command
}

func runRestore(command *cobra.Command, s *server, o restore.Options, out *output) error {
	if err := out.check(); err != nil {
		return err
	}
	if o.Timeout <= 0 {
		return errors.New("--timeout: give a time, such as 6m")
	}
	config, err := s.config(servers.Writes)
	if err != nil {
		return err
	}
	o.Config = config
	report, err := during(command, "restoring", func(ctx context.Context) (*restore.Report, error) { return restore.Run(ctx, o) })
	if report != nil {
		err = errors.Join(out.write(report.Print), err)
	}
	return err
}
