package commands

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/who"
	"github.com/bursar/bursar/internal/usage"
)

// newWhoCommand returns the command to list the users of a resource type.
func newWhoCommand(p cli.Program) *cobra.Command {
	var consumer, selector string
	var objectsMax int
	var out *output
	var s *server
	command := &cobra.Command{
		Use:   "who TYPE",
		Short: "Show which consumers and objects use a resource type, most first",
		Long: `Show who uses a resource type: the consumers by their use, and the objects by their amounts. Waiting objects come last.
The part after the last slash of a resource type is enough.`,
		Example: `  # Who has all the CPUs?
  bursar who vcpus
  # Which objects of a project?
  bursar who vcpus --consumer project/web --number 0`,
		Args: func(command *cobra.Command, arguments []string) error {
			if len(arguments) != 1 {
				return errors.New("name one resource type, such as vcpus")
			}
			return nil
		},
		RunE: func(command *cobra.Command, arguments []string) error {
			filter := usage.Filter{Namespace: s.named(), ResourceType: arguments[0], Consumer: consumer, WithClaims: true}
			if err := checkListing(out, s, &filter, selector, objectsMax); err != nil {
				return err
			}
			report, err := readUsage(command, s, &filter)
			if err != nil {
				return err
			}
			users := who.Of(report, objectsMax)
			if users.IsEmpty() && out.isForPeople() {
				_, err := fmt.Fprintf(command.ErrOrStderr(), "Nobody uses %s, and nobody may.\n", arguments[0])
				return err
			}
			return out.write(users.Print)
		},
	}
	s = addServer(command, p)
	s.addNamespace(command, "only the quota in this namespace (tenants: your own)")
	s.addAllNamespaces(command, "all namespaces, or an error if you may not see all")
	addSelector(command, &selector, "only objects with these labels on their claims")
	out = addOutput(command, "tables", usage.FormatWide)
	command.Flags().StringVar(&consumer, "consumer", "", "only the consumer with this NAME, or KIND/NAME")
	command.Flags().IntVar(&objectsMax, "number", whoObjectsDefault, "at most this many objects, or 0 for all")
	complete(command, "consumer", grantsSeen(s, consumerOf))
	complete(command, "namespace", grantsSeen(s, namespaceShown))
	completeArgument(command, grantsSeen(s, typeOf))
	return command
}
