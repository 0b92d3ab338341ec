package commands

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/serveconsole"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/console/session"
)

// Console returns the command to run the web console.
func Console(p cli.Program) *cobra.Command {
	var o serveconsole.LoopbackOptions
	var s *server
	command := &cobra.Command{
		Use:   "console",
		Short: "Run the web console with your own rights, and print its URL",
		Long: `Run the web console on this machine, only for you: it listens on loopback, and prints a URL that logs in once. The console
reads and writes with the credentials of your kubeconfig, so it shows what you may see and changes what you may change.`,
		Example: `  # Print a URL for the browser
  bursar console
  # As somebody else sees it, if you may impersonate
  bursar console --as alice
  # On a fixed port, for a tunnel from another machine: ssh -L 8080:127.0.0.1:8080 HOST
  bursar console --port 8080`,
		Args: cli.NoArguments(""),
		RunE: func(command *cobra.Command, _ []string) error {
			if !strings.HasPrefix(o.Page, "/") {
				return fmt.Errorf("--page: %q is not a page; give its path, such as /quota", o.Page)
			}
			config, err := s.config(servers.Writes)
			if err != nil {
				return err
			}
			namespace, err := s.namespace()
			if err != nil {
				return err
			}
			if s.named() != "" && o.Page == "/" {
				o.Page = "/quota?" + url.Values{"namespace": {namespace}}.Encode()
			}
			o.Credentials = session.Credentials{Config: config, Namespace: namespace}
			return serveconsole.Loopback(command.Context(), o, command.OutOrStdout())
		},
	}
	s = addServer(command, p)
	s.addNamespace(command, "namespace of the first page with quota")
	command.Flags().IntVar(&o.Port, "port", 0, "loopback port to listen on (default: a free one)")
	command.Flags().StringVar(&o.Page, "page", "/", "page to open, such as /quota or /inbox")
	command.Flags().StringVar(&o.SystemNamespace, "system-namespace", config.DefaultSystemNamespace, "namespace of Bursar itself")
	command.AddCommand(serveconsole.Command(p))
	return command
}
