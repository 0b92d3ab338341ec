// Campaigns prints the campaigns with results at risk from a change. Each is a folder of test/campaign.
//
//	campaigns [BASE]
//
// The change is the difference from the merge base of BASE and HEAD, committed or not. Without a BASE, and with one
// missing from the clone, it prints all campaigns. Run it in the root of the repository.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const root = "test/campaign"

// always lists the inputs of every campaign.
var always = []string{"go.mod", "go.sum", "Makefile", ".ci", "deploy", "examples"}

// reads lists further inputs of a campaign, beyond its Go packages.
var reads = map[string][]string{
	"browser":  {"hack/browser", "hack/site", "hack/fetch-npm"},
	"faults":   {"docs"},
	"external": {"hack/release", ".ko.yaml", "LICENSE", "NOTICE"},
}

func main() {
	base := ""
	if len(os.Args) > 1 {
		base = os.Args[1]
	}
	if err := run(base); err != nil {
		fmt.Fprintln(os.Stderr, "campaigns:", err)
		os.Exit(1)
	}
}

func run(base string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	changed, known := changes(base)
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		touched := !known
		if known {
			folders, err := packages("./"+path.Join(root, entry.Name(), "..."), "./cmd/...")
			if err != nil {
				return err
			}
			touched = touches(changed, entry.Name(), folders)
		}
		if touched {
			fmt.Println(entry.Name())
		}
	}
	return nil
}

// changes returns the files that differ from the merge base. It reports false if git cannot say.
func changes(base string) (files []string, known bool) {
	if base == "" {
		return nil, false
	}
	fork, err := output("git", "merge-base", base, "HEAD")
	if err != nil {
		fmt.Fprintf(os.Stderr, "campaigns: %v: choose all\n", err)
		return nil, false
	}
	// Without renames, git lists a moved file at both places.
	differ, err := output("git", "diff", "--name-only", "--no-renames", strings.TrimSpace(fork))
	if err != nil {
		return nil, false
	}
	added, err := output("git", "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return nil, false
	}
	return strings.Fields(differ + added), true
}

// packages returns the folders of this module that packages and their tests depend on.
func packages(patterns ...string) ([]string, error) {
	const own = "{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}"
	listed, err := output("go", append([]string{"list", "-deps", "-test", "-f", own}, patterns...)...)
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, folder := range strings.Fields(listed) {
		relative, err := filepath.Rel(here, folder)
		if err != nil {
			return nil, err
		}
		folders = append(folders, filepath.ToSlash(relative))
	}
	slices.Sort(folders)
	return slices.Compact(folders), nil
}

// touches reports whether one of the changed files affects a campaign that depends on Go packages in some folders.
func touches(changed []string, campaign string, folders []string) bool {
	own := path.Join(root, campaign)
	inputs := slices.Concat(always, reads[campaign], []string{own})
	return slices.ContainsFunc(changed, func(file string) bool {
		if slices.ContainsFunc(inputs, func(input string) bool { return within(file, input) }) {
			return true
		}
		// Tests and documentation of a package do not affect it. An embedded file may be in a folder below.
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".md") {
			return false
		}
		return slices.ContainsFunc(folders, func(folder string) bool { return folder != "." && within(file, folder) })
	})
}

// within reports whether a file is a path or below it.
func within(file, path string) bool { return file == path || strings.HasPrefix(file, path+"/") }

func output(name string, arguments ...string) (string, error) {
	command := exec.Command(name, arguments...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w %s", name, strings.Join(arguments, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
