package commands

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/cli/users"
)

// User returns the command about users. Only the binary with the server has it.
func User(p cli.Program) *cobra.Command {
	command := &cobra.Command{
		Use: "user", Short: "Give people access to the server", Args: cli.NoArguments("did you mean bursar user create?"),
		Example: `  bursar user create alice --namespace project-web --role edit > alice.kubeconfig`,
		RunE:    func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newUserCreateCommand(p))
	return command
}

func newUserCreateCommand(p cli.Program) *cobra.Command {
	var o users.Options
	var s *server
	command := &cobra.Command{
		Use:   "create NAME (--namespace NAMESPACE | --all-namespaces) --role ROLE",
		Short: "Give a user a role, and print a kubeconfig for it",
		Long: "Give a user a role in a namespace, and print a kubeconfig with a client certificate, signed by the server. Keep it as\n" +
			"a secret. A certificate cannot be revoked before it ends; to take the role away from the user, delete its RoleBinding.",
		Example: `  # A tenant: sees quota and edits objects in the namespace project-web
  bursar user create alice --namespace project-web --role edit > alice.kubeconfig
  # A manager of all quota
  bursar user create bob --all-namespaces --role quota-manager --lifetime 720h > bob.kubeconfig`,
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) != 1 {
				return errors.New("give the name of one user, as in bursar user create alice --namespace project-web --role edit")
			}
			return nil
		},
		RunE: func(command *cobra.Command, arguments []string) error {
			switch {
			case s.isEverywhere == (s.named() != ""):
				return errors.New("name the place of the role: either --namespace NAMESPACE or --all-namespaces")
			case o.Role == "":
				return errors.New("--role is missing: choose view, edit, admin, tenant-viewer, tenant-admin, project-owner or another ClusterRole")
			}
			var err error
			if o.Config, err = s.config(servers.Writes); err != nil {
				return err
			}
			o.Name, o.Namespace = arguments[0], s.named()
			kubeconfig, err := users.Create(command.Context(), o)
			if err != nil {
				return err
			}
			_, err = command.OutOrStdout().Write(kubeconfig)
			return err
		},
	}
	s = addServer(command, p)
	s.addNamespace(command, "namespace of the role")
	s.addAllNamespaces(command, "give the role in all namespaces, and for objects outside of namespaces")
	command.Flags().StringVar(&o.Role, "role", "", "ClusterRole of the user: view, edit, admin, or one of Bursar's, such as tenant-viewer, tenant-admin, project-owner, quota-approver, quota-manager")
	command.Flags().StringArrayVar(&o.Groups, "group", nil, "group of the user; may be repeated")
	command.Flags().StringVar(&o.Server, "server", "", "URL of the server for the user (default: yours)")
	command.Flags().DurationVar(&o.Lifetime, "lifetime", 365*24*time.Hour, "how long the certificate is valid; a standalone server signs for a year at most")
	completeUser(command, s)
	return command
}
