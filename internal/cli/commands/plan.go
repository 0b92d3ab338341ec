package commands

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/plan"
	"github.com/bursar/bursar/internal/usage"
)

func newPlanCommand(p cli.Program) *cobra.Command {
	var options plan.Options
	var out *output
	var s *server
	command := &cobra.Command{
		Use:   "plan (-f FILE | -k DIR)",
		Short: "Ask whether objects would be admitted, without creating them",
		Long: `Ask whether objects fit the quota of their consumers: all together, and object by object in their order. The command creates and
reserves nothing. Deleted and shrinking objects free quota for the others; with --surge, only after all others exist.

First, the command asks the API server, in dry runs with your rights, for the stored form of each object, with defaults and the changes
of other webhooks. Fields of an existing object that its file lacks count, too, as after a server-side apply. With --as-is, it plans the
objects as the files have them, and you need no right to create them.`,
		Example: `  # Would this release be admitted?
  bursar plan -f release/
  # And if it replaces another one?
  bursar plan -f new.yaml --delete old.yaml
  # A chart
  helm template web ./chart | bursar plan -f -`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return runPlan(command, s, options, out)
		},
	}
	cli.AnswersByExitCode(command, "everything fits", "not")
	s = addServer(command, p)
	s.addNamespace(command, "the namespace of objects without one, where you may create QuotaReviews (default: the kubeconfig's)")
	command.Flags().StringSliceVarP(&options.Applied.Filenames, "filename", "f", nil, "files or folders with objects to create or change, or - for the standard input")
	command.Flags().StringVarP(&options.Applied.Kustomize, "kustomize", "k", "", "a folder with a kustomization to apply")
	command.Flags().BoolVarP(&options.Applied.Recursive, "recursive", "R", false, "also read the folders in a folder")
	command.Flags().StringSliceVar(&options.Deleted.Filenames, "delete", nil, "files or folders with objects to delete")
	command.Flags().BoolVar(&options.Surge, "surge", false, "new and larger objects exist before others free their quota")
	command.Flags().BoolVar(&options.AsIs, "as-is", false, "plan the objects as the files have them, without asking for defaults")
	out = addOutput(command, "tables")
	complete(command, "namespace", namespacesSeen(s))
	return command
}

// These errors end the command after it has printed the answer.
var (
	errDoesNotFit = cli.No("not everything fits")
	errUnknown    = cli.No("it is unknown whether everything fits")
)

func runPlan(command *cobra.Command, s *server, options plan.Options, out *output) error {
	if err := out.check(); err != nil {
		return err
	}
	if len(options.Applied.Filenames)+len(options.Deleted.Filenames) == 0 && options.Applied.Kustomize == "" {
		return errors.New("name the objects: -f FILE, -k DIR, or --delete FILE")
	}
	api, err := s.connect()
	if err != nil {
		return err
	}
	config, err := s.flags.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS = -1 // the API server decides how much it serves at a time
	if options.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("reach the API server at %s: %w", config.Host, err)
	}
	if options.Namespace, err = s.namespace(); err != nil {
		return err
	}
	options.API = api
	answer, err := during(command, "asking about the objects", func(ctx context.Context) (*quotav1alpha1.QuotaReviewStatus, error) {
		return plan.Review(ctx, options)
	})
	if err != nil {
		return err
	}
	if err := out.write(func(w io.Writer, format usage.Format) error { return plan.Print(w, answer, format) }); err != nil {
		return err
	}
	switch answer.Result {
	case quotav1alpha1.ReviewResultFits:
		return nil
	case quotav1alpha1.ReviewResultUnknown:
		return errUnknown
	default:
		return errDoesNotFit
	}
}
