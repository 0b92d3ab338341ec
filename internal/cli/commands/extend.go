package commands

import (
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/extend"
	"github.com/bursar/bursar/internal/cli/request"
)

func newExtendCommand(p cli.Program) *cobra.Command {
	var until, by string
	var out *output
	var s *server
	var options extend.Options
	command := &cobra.Command{
		Use:   "extend GRANT (--until TIME | --by DURATION)",
		Short: "Move the end of a grant to a later time",
		Long: `Move the end of a ResourceGrant to a later time: the end of the whole grant or, if it has none, the ends of its allowances. With
--type, move the ends of the allowances of this resource type. An ended grant counts again.`,
		Example: `  bursar extend trial -n organization-acme --by 30d
  bursar extend trial -n organization-acme --until 2027-03-31`,
		Args: cli.OneArgument("the name of a ResourceGrant"),
		RunE: func(command *cobra.Command, args []string) error {
			err := out.check()
			if err != nil {
				return err
			}
			if options.Until, err = request.ParseEnd(until); err != nil {
				return err
			}
			if options.By, err = parseDays("by", by); err != nil {
				return err
			}
			if err := options.Check(); err != nil {
				return err
			}
			api, err := s.connect()
			if err != nil {
				return err
			}
			namespace, err := s.namespace()
			if err != nil {
				return err
			}
			options.Grant = client.ObjectKey{Namespace: namespace, Name: args[0]}
			extended, err := extend.Run(command.Context(), api, options)
			if err != nil {
				return err
			}
			return out.write(extended.Print)
		},
	}
	s = addServer(command, p)
	s.addNamespace(command, "the namespace of the grant (default: the kubeconfig's)")
	out = addOutput(command, "sentences", formatName)
	command.Flags().StringVar(&until, "until", "", "the new end: a date (its midnight UTC), or a time such as 2027-03-31T18:00:00Z")
	command.Flags().StringVar(&by, "by", "", "how much later, such as 30d or 12h")
	command.Flags().StringVar(&options.ResourceType, "type", "", "move the end of the allowances of this resource type")
	complete(command, "namespace", namespacesSeen(s))
	complete(command, "type", grantsSeen(s, typeOf))
	completeArgument(command, namesOf(s, &quotav1alpha1.ResourceGrantList{}))
	return command
}
