package cli

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// program is the name of the binary with all commands.
	program = "bursar"
	// pluginFile is the file name by which kubectl finds the plugin, and plugin is the command people type.
	pluginFile = "kubectl-bursar"
	plugin     = "kubectl bursar"
)

// Program is the name of a binary to its users: bursar, or kubectl bursar for the plugin of kubectl.
type Program struct {
	// Name is the command people type.
	Name string
	// Version comes from the build of the binary.
	Version string
}

// ProgramOf returns the program of the first argument of a process. kubectl runs its plugins by the names of their
// files.
func ProgramOf(argument, version string) Program {
	if strings.TrimSuffix(filepath.Base(argument), ".exe") == pluginFile {
		return Plugin(version)
	}
	return Program{Name: program, Version: version}
}

// Plugin returns the plugin of kubectl, regardless of the name of its file.
func Plugin(version string) Program { return Program{Name: plugin, Version: version} }

// IsPlugin reports whether the program is the plugin of kubectl.
func (p Program) IsPlugin() bool { return p.Name == plugin }

// file returns the program's name for shells.
func (p Program) file() string { return strings.ReplaceAll(p.Name, " ", "-") }

// commandLine finds commands of Bursar in a text.
var commandLine = regexp.MustCompile(`(\bkubectl )?\bbursar ([a-z]+)\b`)

// Words returns a text for people, with the name of the running program in its own commands. Commands that the program
// lacks keep their names: they are those of the server.
func Words(command *cobra.Command, text string) string {
	root := command.Root()
	if root.DisplayName() == program {
		return text
	}
	names := make([]string, 0, len(root.Commands()))
	for _, child := range root.Commands() {
		names = append(names, child.Name())
	}
	return commandLine.ReplaceAllStringFunc(text, func(found string) string {
		parts := commandLine.FindStringSubmatch(found)
		if !slices.Contains(names, parts[2]) {
			return found
		}
		return root.DisplayName() + " " + parts[2]
	})
}

// rename gives the commands in all help texts the name of the program.
func rename(command *cobra.Command) {
	for _, text := range []*string{&command.Short, &command.Long, &command.Example} {
		*text = Words(command, *text)
	}
	command.Flags().VisitAll(func(flag *pflag.Flag) { flag.Usage = Words(command, flag.Usage) })
	for _, child := range command.Commands() {
		rename(child)
	}
}
