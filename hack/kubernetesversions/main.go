// Kubernetesversions tests the operator on every supported minor version of Kubernetes, and writes the table of the
// results.
//
//	kubernetesversions FILE [MINOR...]
//
// A minor is a version such as 1.33. The table keeps its results of other minors and of tests that do not run. Without
// a minor, the table is of all: those with a module file in the folder of the campaign, and the one in Bursar's own
// go.mod. TESTS in the environment selects tests, as in go test -run. Run it in the root of the repository. It ends
// with 1 if a test failed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	campaign = "./test/campaign/kubernetes"
	// suite matches the tests that depend on the version: of the operator, its removal, and its upgrade.
	suite = "^(TestKubernetes|TestUninstall|TestRollingUpgrade)$"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "kubernetesversions: name the file to write")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetesversions:", err)
		os.Exit(1)
	}
}

func run(file string, minors []string) error {
	known, err := versions()
	if err != nil {
		return err
	}
	var columns []column
	if len(minors) == 0 {
		minors = slices.Sorted(maps.Keys(known))
	} else {
		before, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		columns = columnsOf(string(before))
	}
	var failed error
	for _, minor := range minors {
		if known[minor] == "" {
			return fmt.Errorf("minor version %s has no module file in %s/minors", minor, campaign)
		}
		fmt.Printf("Kubernetes %s\n", known[minor])
		tested, err := test(minor)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			failed = errors.New("some tests failed")
		}
		tested.version = known[minor]
		columns = update(columns, tested.column())
	}
	slices.SortFunc(columns, func(a, b column) int { return strings.Compare(a.version, b.version) })
	return errors.Join(failed, os.WriteFile(file, []byte(page(columns)), 0o644)) //nolint:gosec // everybody may read it
}

// versions returns the version of Kubernetes of each minor.
func versions() (map[string]string, error) {
	found := map[string]string{}
	files, err := filepath.Glob(filepath.Join(campaign, "minors", "*.mod"))
	if err != nil {
		return nil, err
	}
	for _, file := range append(files, "go.mod") {
		if filepath.Base(file) == "go.mod" && file != "go.mod" {
			continue // it is of no minor
		}
		edited, err := exec.Command("go", "mod", "edit", "-json", file).Output()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		var module struct {
			Require []struct{ Path, Version string }
		}
		if err := json.Unmarshal(edited, &module); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		for _, required := range module.Require {
			if required.Path != "k8s.io/kubernetes" {
				continue
			}
			version := strings.TrimPrefix(required.Version, "v")
			minor := minorOf(version)
			if name := filepath.Base(file); name != "go.mod" && name != minor+".mod" {
				return nil, fmt.Errorf("%s requires Kubernetes %s", file, version)
			}
			found[minor] = version
		}
	}
	return found, nil
}

// event is one line of go test -json.
type event struct{ Action, Test, Output, Key, Value string }

// test runs the suite with one minor version of Kubernetes.
func test(minor string) (*result, error) {
	command := exec.Command("go", "test", "-json", "-count=1", "-timeout=30m", "-run", cmp.Or(os.Getenv("TESTS"), suite), campaign)
	command.Env = append(os.Environ(), "KUBERNETES_MINOR="+minor)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	r := &result{proofs: map[string]string{}, outcomes: map[string]string{}}
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			r.note(e)
		}
	}
	if err := errors.Join(lines.Err(), command.Wait()); err != nil {
		return r, fmt.Errorf("%w\n%s", err, strings.Join(r.output, ""))
	}
	return r, nil
}
