package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/commands"
	"github.com/bursar/bursar/internal/cli/operate"
	"github.com/bursar/bursar/internal/cli/serve"
	"github.com/bursar/bursar/internal/cli/serveconsole"
	"github.com/bursar/bursar/internal/standalone/flags"
)

const commandsHead = `# Commands

` + generated + `Every command of Bursar with its flags, as ` + "`--help`" + ` prints them.
[Use the commands](../tasks/use-the-commands.md) shows them at work:
which server they talk to, what they print for scripts, and how a shell completes them.

The last two columns say what the exit codes mean, for scripts, and which binaries have the command besides ` + "`bursar`" + `:
` + "`kubectl bursar`" + `, the plugin of kubectl, and ` + "`bursar-operator`" + `, the binary of the container image.

`

const sharedHead = `## Flags of a server

Commands that talk to a server take the flags of kubectl for that. Each command below says if it does.

`

// programs are the command lines of the binaries, by their names.
func programs() map[string]*cobra.Command {
	p := cli.Program{Name: "bursar", Version: "reference"}
	plugin := cli.Plugin(p.Version)
	console := &cobra.Command{Use: "console"}
	console.AddCommand(serveconsole.Command(p))
	return map[string]*cobra.Command{
		"bursar": cli.New(p, append(commands.All(p), serve.Standalone(func(*cobra.Command, *flags.Standalone) error { return nil }),
			operate.Command(p.Version), commands.User(p), serve.Kubectl())...),
		"kubectl bursar":  cli.New(plugin, commands.All(plugin)...),
		"bursar-operator": cli.New(p, operate.Command(p.Version), console),
	}
}

func commandsPage(string) (string, error) {
	all := programs()
	described := runnable(all["bursar"])
	for _, command := range runnable(all["kubectl bursar"]) {
		if !has(all["bursar"], path(command)) {
			described = append(described, command)
		}
	}
	slices.SortFunc(described, func(a, b *cobra.Command) int { return strings.Compare(path(a), path(b)) })
	shared := sharedFlags(described)
	var page strings.Builder
	page.WriteString(commandsHead)
	rows := &table{header: []string{"command", "what it does", "exit codes", "also in"}}
	for _, command := range described {
		codes, _ := cli.ExitCodes(command)
		switch path(command) {
		case "kubectl":
			codes = "those of kubectl"
		case "standalone", "operator":
			codes = "0 if a signal stops it, and 1 for an error"
		}
		rows.add(fmt.Sprintf("[`%s`](#%s)", command.CommandPath(), anchor(command)), prose(command.Short), codes, otherBinaries(all, command))
	}
	page.WriteString(rows.String())
	page.WriteString(sharedHead)
	page.WriteString(flagTable(shared).String())
	for _, command := range described {
		if err := writeCommand(&page, command, shared); err != nil {
			return "", err
		}
	}
	return strings.TrimRight(page.String(), "\n") + "\n", nil
}

// runnable returns the commands below one with an effect, except for those of cobra. A command for help only counts as
// a group.
func runnable(command *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, child := range command.Commands() {
		if child.Name() == "help" {
			continue
		}
		isGroup := child.HasSubCommands() && child.Flags().Lookup("kubeconfig") == nil
		if !isGroup {
			all = append(all, child)
		}
		all = append(all, runnable(child)...)
	}
	return all
}

// path returns the words after the name of the program.
func path(command *cobra.Command) string {
	return strings.TrimPrefix(command.CommandPath(), command.Root().DisplayName()+" ")
}

func anchor(command *cobra.Command) string {
	return strings.ReplaceAll(command.CommandPath(), " ", "-")
}

func has(root *cobra.Command, path string) bool {
	return slices.ContainsFunc(runnable(root), func(command *cobra.Command) bool {
		return strings.TrimPrefix(command.CommandPath(), root.DisplayName()+" ") == path
	})
}

func otherBinaries(all map[string]*cobra.Command, command *cobra.Command) string {
	var names []string
	for _, name := range []string{"kubectl bursar", "bursar-operator"} {
		if all[name] != command.Root() && has(all[name], path(command)) {
			names = append(names, code(name))
		}
	}
	return strings.Join(names, ", ")
}

// sharedMin is the least number of commands with a flag to list the flag once for all.
const sharedMin = 10

// sharedFlags returns the flags of many commands with the same meaning and default.
func sharedFlags(all []*cobra.Command) []*pflag.Flag {
	var shared []*pflag.Flag
	for _, command := range all {
		for _, flag := range ownFlags(command) {
			if isIn(shared, flag) {
				continue
			}
			count := 0
			for _, other := range all {
				if isIn(ownFlags(other), flag) {
					count++
				}
			}
			if count >= sharedMin {
				shared = append(shared, flag)
			}
		}
	}
	slices.SortFunc(shared, func(a, b *pflag.Flag) int { return strings.Compare(a.Name, b.Name) })
	return shared
}

// ownFlags returns the visible flags of a command, in the order of their names, without --help.
func ownFlags(command *cobra.Command) []*pflag.Flag {
	var all []*pflag.Flag
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && flag.Name != "help" {
			all = append(all, flag)
		}
	})
	return all
}

func isIn(all []*pflag.Flag, flag *pflag.Flag) bool {
	return slices.ContainsFunc(all, func(other *pflag.Flag) bool {
		return other.Name == flag.Name && other.Usage == flag.Usage && other.DefValue == flag.DefValue
	})
}

// writeCommand writes the section of a command.
func writeCommand(page *strings.Builder, command *cobra.Command, shared []*pflag.Flag) error {
	if command.Short == "" || command.Example == "" {
		return fmt.Errorf("%s has no description or no example", command.CommandPath())
	}
	fmt.Fprintf(page, "## %s\n\n", command.CommandPath())
	text := command.Long
	if text == "" {
		text = command.Short
	}
	page.WriteString(paragraphs(text))
	fmt.Fprintf(page, "```console\n%s\n```\n\n", strings.TrimSpace(command.UseLine()))
	fmt.Fprintf(page, "```console\n%s\n```\n\n", withoutIndent(command.Example))
	var own []*pflag.Flag
	var others []string
	for _, flag := range ownFlags(command) {
		if strings.TrimSpace(flag.Usage) == "" {
			return fmt.Errorf("%s: the flag --%s has no explanation", command.CommandPath(), flag.Name)
		}
		if isIn(shared, flag) {
			others = append(others, code("--"+flag.Name))
		} else {
			own = append(own, flag)
		}
	}
	if len(own) > 0 {
		page.WriteString(flagTable(own).String())
	}
	switch {
	case len(others) == len(shared):
		page.WriteString("It also has all [flags of a server](#flags-of-a-server).\n\n")
	case len(others) > 0:
		page.WriteString(wrap("It also has these [flags of a server](#flags-of-a-server): "+strings.Join(others, ", ")+".") + "\n\n")
	}
	return nil
}

func flagTable(all []*pflag.Flag) *table {
	rows := &table{header: []string{"flag", "default", "meaning"}}
	for _, flag := range all {
		name := code("--" + flag.Name)
		if flag.Shorthand != "" {
			name = code("-"+flag.Shorthand) + ", " + name
		}
		meaning, value := splitUsage(flag)
		rows.add(name, value, prose(sentence(meaning)))
	}
	return rows
}

// splitUsage returns the meaning and the default of a flag: the default in the usage, or the value.
func splitUsage(flag *pflag.Flag) (meaning, value string) {
	if before, stated, found := strings.Cut(flag.Usage, "(default: "); found {
		stated, after, _ := strings.Cut(stated, ")")
		return strings.TrimSpace(before) + after, prose(stated)
	}
	switch flag.DefValue {
	case "", "[]", "0s":
		return flag.Usage, ""
	}
	return flag.Usage, code(flag.DefValue)
}
