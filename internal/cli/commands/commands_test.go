package commands_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/commands"
)

var update = flag.Bool("update-help", false, "write the help texts to testdata instead of comparing them")

// programs are the command lines with the commands for clients. bursar itself also has commands of the server.
var programs = map[string]func() *cobra.Command{
	"bursar": func() *cobra.Command {
		p := cli.Program{Name: "bursar", Version: "test"}
		return cli.New(p, append(commands.All(p), commands.User(p))...)
	},
	"kubectl-bursar": func() *cobra.Command {
		p := cli.Plugin("test")
		return cli.New(p, commands.All(p)...)
	},
}

// walk calls f for a command and all commands below it, except for cobra's own.
func walk(command *cobra.Command, f func(*cobra.Command)) {
	f(command)
	for _, child := range command.Commands() {
		if child.Name() != "help" && (child.Name() != "completion" || !child.HasSubCommands()) {
			walk(child, f)
		}
	}
}

// TestHelp compares the help of all commands with the golden files.
func TestHelp(t *testing.T) {
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			root := program()
			root.SetArgs([]string{"--help"})
			var all bytes.Buffer
			root.SetOut(&all)
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			walk(root, func(command *cobra.Command) {
				if command == root {
					return
				}
				fmt.Fprintf(&all, "\n===== %s\n\n", command.CommandPath())
				command.InitDefaultHelpFlag()
				if err := command.Help(); err != nil {
					t.Fatal(err)
				}
			})
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, all.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), all.String()); diff != "" {
				t.Errorf("the help changed; if that is right, run the test with -update-help (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExamples checks the example of every command: it exists, and uses existing commands and flags.
func TestExamples(t *testing.T) {
	for name, program := range programs {
		root := program()
		runs := regexp.MustCompile(`(?m)(?:^  |\| )` + root.DisplayName() + ` ([^|>\n]*)`)
		walk(root, func(command *cobra.Command) {
			if command == root {
				return
			}
			if !strings.Contains(command.Example, command.CommandPath()) {
				t.Errorf("%s: no example runs %s", name, command.CommandPath())
			}
			for _, line := range runs.FindAllStringSubmatch(command.Example, -1) {
				words := strings.Fields(line[1])
				found, rest, err := root.Find(words)
				if err != nil || found == root {
					t.Errorf("%s: the example %q of %s runs no command: %v", name, line[0], command.CommandPath(), err)
					continue
				}
				for _, word := range rest {
					if flag, isFlag := strings.CutPrefix(word, "--"); isFlag {
						flag, _, _ = strings.Cut(flag, "=")
						if found.Flags().Lookup(flag) == nil {
							t.Errorf("%s: the example %q of %s has the flag --%s, which there is not", name, line[0], command.CommandPath(), flag)
						}
					}
				}
			}
		})
	}
}

// bare finds commands without the name of the plugin.
var bare = regexp.MustCompile(`(?:^|[^l]) ?\bbursar ([a-z]+)\b`)

// TestPluginNamesItself looks for commands of other binaries in the help texts of the plugin. Its users may not have
// these binaries.
func TestPluginNamesItself(t *testing.T) {
	root := programs["kubectl-bursar"]()
	var names []string
	for _, child := range root.Commands() {
		names = append(names, child.Name())
	}
	walk(root, func(command *cobra.Command) {
		text := command.Short + command.Long + command.Example + command.UseLine()
		command.Flags().VisitAll(func(flag *pflag.Flag) { text += flag.Usage })
		text = strings.ReplaceAll(text, "kubectl bursar", "PLUGIN")
		for _, match := range bare.FindAllStringSubmatch(text, -1) {
			if slices.Contains(names, match[1]) {
				t.Errorf("the help of %s says %q", command.CommandPath(), strings.TrimSpace(match[0]))
			}
		}
	})
}

// TestPluginWithoutServers makes sure the plugin stays small.
func TestPluginWithoutServers(t *testing.T) {
	packages, err := exec.Command("go", "list", "-deps", "../../../cmd/kubectl-bursar").Output()
	if err != nil {
		t.Fatal(err)
	}
	unwanted := regexp.MustCompile(`(?m)^(k8s\.io/kubernetes/|k8s\.io/apiserver/pkg/server|k8s\.io/kubectl/pkg/cmd$|k8s\.io/kubectl/pkg/cmd/(apply|create|edit)|` +
		`go\.etcd\.io/|github\.com/bursar/bursar/internal/(operator|controller|standalone/apiserver)).*`)
	for _, found := range unwanted.FindAllString(string(packages), -1) {
		t.Errorf("the plugin is built from %s", found)
	}
}

// TestServerFlags checks that commands with a server have the flags of kubectl, and listing commands a selector.
func TestServerFlags(t *testing.T) {
	withoutServer := []string{"policy", "policy test", "version", "completion", "user"}
	walk(programs["bursar"](), func(command *cobra.Command) {
		_, path, isChild := strings.Cut(command.CommandPath(), " ")
		if !isChild || slices.Contains(withoutServer, path) {
			return
		}
		for _, flag := range []string{"kubeconfig", "context", "as", "as-group"} {
			if command.Flags().Lookup(flag) == nil {
				t.Errorf("%s has no flag --%s", command.CommandPath(), flag)
			}
		}
		for _, lists := range []string{"usage", "tree", "who", "requests"} {
			if path == lists && (command.Flags().ShorthandLookup("l") == nil || command.Flags().ShorthandLookup("A") == nil) {
				t.Errorf("%s lists objects without -l or -A", command.CommandPath())
			}
		}
	})
}

// TestFormats checks that all commands have the same error for an unknown format.
func TestFormats(t *testing.T) {
	arguments := map[string][]string{
		"usage": nil, "tree": nil, "who": {"vcpus"}, "requests": nil, "request": {"a=1"}, "approve": {"a"}, "deny": {"a"}, "extend": {"a", "--by", "1d"},
		"why": {"a/b"}, "plan": nil, "history": nil, "top": nil, "backtest": {"--limit", "a=1"}, "policy backtest": {"a"}, "policy test": nil,
		"status": nil, "import": {"--from", "capsule"}, "export": nil, "restore": {"a"},
	}
	takesWide := []string{"usage", "tree", "who", "requests"}
	for path, more := range arguments {
		for _, format := range []string{"xml", "wide", "jsonpath", "custom-columns=a"} {
			if format == "wide" && slices.Contains(takesWide, path) {
				continue
			}
			root := programs["bursar"]()
			root.SetArgs(slices.Concat(strings.Fields(path), more, []string{"-o", format, "--kubeconfig", "/none"}))
			if path == "policy test" {
				root.SetArgs([]string{"policy", "test", "-o", format})
			}
			err := root.Execute()
			if err == nil || !strings.HasPrefix(err.Error(), "--output: ") {
				t.Errorf("%s -o %s: %v", path, format, err)
			}
		}
	}
}
