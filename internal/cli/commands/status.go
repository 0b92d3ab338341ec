package commands

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/cli/status"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/naming"
)

// newStatusCommand returns the command for the health of a server or cluster.
func newStatusCommand(p cli.Program) *cobra.Command {
	var systemNamespace, certificateSecret string
	var s *server
	var out *output
	command := &cobra.Command{
		Use:   "status",
		Short: "Show whether quota enforcement works",
		Long: "Show whether quota enforcement works: the server, the webhooks and their certificate, the leader, failing policies,\n" +
			"outdated ledgers, and the journal.",
		Example: `  bursar status
  # Only failed and unknown checks
  bursar status -o jsonpath='{range .items[?(@.state!="ok")]}{.name}: {.text} {.details}{"\n"}{end}'`,
		Args: cli.NoArguments(""),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			config, err := s.config(servers.Reads)
			if err != nil {
				return err
			}
			report, err := during(command, "checking", func(ctx context.Context) (status.Report, error) {
				return status.Read(ctx, config, systemNamespace, certificateSecret)
			})
			if err != nil {
				return err
			}
			if err := out.write(report.Print); err != nil {
				return err
			}
			if failed := report.Failed(); failed > 0 {
				return fmt.Errorf("%d of %d checks failed", failed, len(report))
			}
			return nil
		},
	}
	cli.FailsAlso(command, "a check has failed")
	s = addServer(command, p)
	out = addOutput(command, "a page")
	command.Flags().StringVar(&systemNamespace, "system-namespace", config.DefaultSystemNamespace, "namespace of Bursar itself")
	command.Flags().StringVar(&certificateSecret, "certificate-secret", naming.CertificateSecret, "Secret with the certificate of the webhooks")
	return command
}
