package main

import (
	"fmt"
	"go/ast"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

const environmentHead = `## Variables of the environment

`

// variable is a variable of the environment, or several with one meaning.
type variable struct{ readers, meaning string }

// variables are the variables read by the code of Bursar. A test finds missing ones, and ones without a reader.
var variables = map[string]variable{
	"BURSAR_DATA_DIR": {"commands", "The data directory of the standalone server to talk to, before all other running servers."},
	"GOGC":            {"server", "Go's own setting of garbage collection. If it is set, Bursar does not tune it."},
	"KUBECONFIG":      {"commands", "The kubeconfig of the server to talk to, as for kubectl."},
	"LANG":            {"commands", "The locale if neither LC_ALL nor LC_CTYPE has it."},
	"LC_ALL":          {"commands", "The locale. Only one with UTF-8 gets lines and bars beyond ASCII."},
	"LC_CTYPE":        {"commands", "The locale if LC_ALL is unset."},
	"NO_COLOR":        {"commands", "Any text leaves out colours."},
	"POD_IP":          {"operator", "The address of this replica for the others. The chart sets it. Without it, and with a `webhooks.bindAddress` for all addresses, the operator does not start."},
	"TERM":            {"commands", "`dumb` leaves out colours and bars."},
	"XDG_DATA_HOME":   {"server", "The folder of the data directory of a standalone server without --data-dir."},
	"XDG_RUNTIME_DIR": {"commands, server", "The folder for the path of the kubeconfig of a running standalone server, for commands."},
}

// ofLibraries are the variables with names from constants of libraries.
var ofLibraries = map[string]string{"clientcmd.RecommendedConfigPathEnvVar": "KUBECONFIG"}

func environment(root string) (*table, error) {
	read, err := readVariables(filepath.Join(root, "internal"), filepath.Join(root, "cmd"))
	if err != nil {
		return nil, err
	}
	rows := &table{header: []string{"variable", "read by", "meaning"}}
	for _, name := range read {
		v, ok := variables[name]
		if !ok {
			return nil, fmt.Errorf("the code reads the variable %s, which hack/reference does not explain", name)
		}
		rows.add(code(name), v.readers, prose(v.meaning))
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !slices.Contains(read, name) {
			return nil, fmt.Errorf("hack/reference explains the variable %s, which no code reads", name)
		}
	}
	return rows, nil
}

// readVariables returns the variables read by the code below folders, in order.
func readVariables(dirs ...string) ([]string, error) {
	sources, err := parseBelow(dirs...)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	var failed error
	for _, s := range sources {
		for _, file := range s.files {
			ast.Inspect(file, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok || !slices.Contains([]string{"os.Getenv", "os.LookupEnv"}, nameOf(call.Fun)) {
					return true
				}
				name, isKnown := ofLibraries[nameOf(call.Args[0])]
				if !isKnown {
					if name, err = s.text(call.Args[0]); err != nil {
						failed = fmt.Errorf("package %s: %s: %w", file.Name.Name, strings.TrimSpace(nameOf(call.Args[0])), err)
					}
				}
				names[name] = true
				return true
			})
		}
	}
	return slices.Sorted(maps.Keys(names)), failed
}
