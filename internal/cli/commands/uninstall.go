package commands

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/cli/uninstall"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/naming"
)

// newUninstallCommand returns the command to remove Bursar from a cluster.
func newUninstallCommand(p cli.Program) *cobra.Command {
	var o uninstall.Options
	var s *server
	command := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Bursar from a cluster",
		Long: "Remove Bursar from a cluster, once its operator has stopped. This ends enforcement and lifts Bursar's finalizers, so Bursar\n" +
			"denies no request and delays no deletion. Policies, grants, claims and ledgers stay unless you give --purge. You can run it\n" +
			"again at any time, also after an interruption.",
		Example: `  # Show what would be removed
  bursar uninstall --purge --dry-run
  # Stop enforcing, and keep everything for a later installation
  bursar uninstall
  # Remove everything, and all quota with it
  bursar uninstall --purge`,
		Args: cli.NoArguments(""),
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := servers.Cluster(s.flags) // never a standalone server on this machine
			if err != nil {
				return err
			}
			o.Config, o.Program, o.Out = config, p.Name, command.OutOrStdout()
			_, _ = fmt.Fprintf(o.Out, "%s: uninstalling from the cluster at %s\n", p.Name, config.Host)
			return uninstall.Run(command.Context(), o)
		},
	}
	s = addServer(command, p)
	command.Flags().BoolVar(&o.Purge, "purge", false, "also delete all data of Bursar: policies, grants, claims, ledgers, CustomResourceDefinitions and its namespace")
	command.Flags().BoolVar(&o.DryRun, "dry-run", false, "only show what would be removed")
	command.Flags().StringVar(&o.SystemNamespace, "system-namespace", config.DefaultSystemNamespace, "namespace of Bursar itself")
	command.Flags().StringVar(&o.CertificateSecret, "certificate-secret", naming.CertificateSecret, "Secret with the certificate of the webhooks")
	return command
}
