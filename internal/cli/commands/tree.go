package commands

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/cli/terminal"
	"github.com/bursar/bursar/internal/cli/tree"
	"github.com/bursar/bursar/internal/usage"
)

// These defaults bound the listed objects: of each resource type in a tree, and of all for bursar who.
const (
	treeObjectsDefault = 10
	whoObjectsDefault  = 20
)

// newTreeCommand returns the command to show the quota of consumers as a tree.
func newTreeCommand(p cli.Program) *cobra.Command {
	var resourceType, selector string
	var objectsMax int
	var isASCII bool
	var out *output
	var s *server
	command := &cobra.Command{
		Use:   "tree [KIND/NAME]",
		Short: "Show consumers with their resource types, grants and objects as a tree",
		Long: `Show consumers as a tree: under each its resource types, with use and limit, and under these the grants of the limit and the
objects that use it, the largest first. Waiting objects come last, with their requests in parentheses. Without a name, the
command shows all consumers visible to you.`,
		Example: `  # What makes up the quota of a project, and what uses it?
  bursar tree project/web
  # One resource type, with all objects
  bursar tree project/web --type vcpus --number 0`,
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) > 1 {
				return errors.New("name one consumer, as KIND/NAME, such as project/web")
			}
			return nil
		},
		RunE: func(command *cobra.Command, arguments []string) error {
			filter := usage.Filter{Namespace: s.named(), ResourceType: resourceType, WithClaims: true, SortBy: usage.SortByConsumer}
			if err := checkListing(out, s, &filter, selector, objectsMax); err != nil {
				return err
			}
			var name *consumername.Name
			if len(arguments) > 0 {
				parsed, err := consumername.Parse(arguments[0])
				if err != nil {
					return err
				}
				name, filter.Consumer = &parsed, parsed.Short()
			}
			report, err := readUsage(command, s, &filter)
			if err != nil {
				return err
			}
			found := tree.Of(report, name, objectsMax)
			if found.IsEmpty() && out.isForPeople() {
				_, err := fmt.Fprintln(command.ErrOrStderr(), noUsageMessage(filter))
				return err
			}
			isASCII = isASCII || terminal.Of(command.OutOrStdout()).IsASCII
			return out.write(func(w io.Writer, format usage.Format) error { return found.Print(w, format, isASCII) })
		},
	}
	s = addServer(command, p)
	s.addNamespace(command, "only the quota in this namespace (tenants: your own)")
	s.addAllNamespaces(command, "all namespaces, or an error if you may not see all")
	addSelector(command, &selector, "only objects with these labels on their claims")
	out = addOutput(command, "a tree", usage.FormatWide)
	f := command.Flags()
	f.StringVar(&resourceType, "type", "", "only this resource type; the part after its last slash is enough")
	f.IntVar(&objectsMax, "number", treeObjectsDefault, "at most this many objects of each resource type, or 0 for all")
	f.BoolVar(&isASCII, "ascii", false, "draw with ASCII characters (default: if the locale is not UTF-8)")
	complete(command, "type", grantsSeen(s, typeOf))
	complete(command, "namespace", grantsSeen(s, namespaceShown))
	completeArgument(command, grantsSeen(s, consumerOf))
	return command
}

// checkListing checks the flags of a command for listing objects, and completes the filter with them.
func checkListing(out *output, s *server, filter *usage.Filter, selector string, objectsMax int) error {
	var err error
	if filter.Selector, err = parseSelector(selector); err != nil {
		return err
	}
	if objectsMax < 0 {
		err = errors.New("--number: give a number of 1 or more, or 0 for all")
	}
	return errors.Join(out.check(), s.checkNamespaces(), err)
}
