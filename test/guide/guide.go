// Package guide follows a guide like its readers.
package guide

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/process"
)

const (
	// within is how long a line may take to succeed, over all its tries.
	within = time.Minute
	// lineTimeout bounds a single try. Some lines build a program.
	lineTimeout = 5 * time.Minute
)

var (
	block   = regexp.MustCompile("(?s)```(sh|text)\n(.*?)```")
	byOther = regexp.MustCompile("(?s)<!-- run by [^\n]* -->\n```sh\n.*?```")
	age     = regexp.MustCompile(`\b([0-9]+m[0-9]*s?|[0-9]+s)\b`)
	moment  = regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z`)
	spacing = regexp.MustCompile(` +`)
)

// Follow types the commands in the blocks for sh of a guide. guide is its path from the root of the repository. Follow
// checks that the last command before a block of text comes to print the text, and returns the number of texts. The
// commands are those of "bin/bursar", or of bursar on the PATH, with a kubeconfig for the server. A block below a
// comment "run by" belongs to another test. Files below /tmp are those of the test, and programs in the background end
// with it.
func Follow(t *testing.T, guide, kubeconfig string) (texts int) {
	t.Helper()
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, guide))
	if err != nil {
		t.Fatal(err)
	}
	s := shell{root: root, kubeconfig: kubeconfig, temporary: t.TempDir()}
	blocks := block.FindAllStringSubmatch(byOther.ReplaceAllString(string(content), ""), -1)
	var last string
	for i, part := range blocks {
		if part[1] == "text" {
			texts++
			await.NoError(t, within, func() error {
				output, _ := s.run(t, last) // a refusal is a text as well
				if diff := cmp.Diff(normal(part[2]), normal(output)); diff != "" {
					return fmt.Errorf("%s prints (-guide +here):\n%s", last, diff)
				}
				return nil
			})
			continue
		}
		lines := strings.Split(strings.TrimSpace(part[2]), "\n")
		for n, line := range lines {
			last = line
			if n == len(lines)-1 && i+1 < len(blocks) && blocks[i+1][1] == "text" {
				continue // only its output matters
			}
			tries := 0
			await.NoError(t, within, func() error {
				tries++
				output, err := s.run(t, last)
				if err == nil || tries > 1 && made(output) {
					return nil
				}
				err = fmt.Errorf("%s: %w\n%s", last, err, output)
				if tries == 1 {
					t.Logf("tried again: %v", err)
				}
				return err
			})
		}
	}
	return texts
}

// made tells from the output of a failed "kubectl create" that all its objects exist: tries before have made them, some
// in each.
func made(output string) bool {
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "Error from server (AlreadyExists): ") {
			return false
		}
	}
	return output != ""
}

// normal is an output without the ages and times in it and the width of columns.
func normal(output string) []string {
	var lines []string
	for line := range strings.Lines(output) {
		line = moment.ReplaceAllString(line, "TIME")
		lines = append(lines, strings.TrimSpace(spacing.ReplaceAllString(age.ReplaceAllString(line, "0s"), " ")))
	}
	return lines
}

// shell runs the lines of one guide.
type shell struct {
	root, kubeconfig string
	// temporary stands for /tmp, because guides are followed at the same time.
	temporary string
	// exports are the lines that export variables to later ones.
	exports []string
}

// run runs a line in the root of the repository.
func (s *shell) run(t *testing.T, line string) (string, error) {
	t.Helper()
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(line, "export ") {
		s.exports = append(s.exports, line)
	}
	typed := strings.Join(append(slices.Clone(s.exports), line), "\n")
	typed = strings.NewReplacer("bin/bursar ", binary+" ", "/tmp/", s.temporary+"/").Replace(typed)
	ctx, cancel := context.WithTimeout(t.Context(), lineTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-c", typed)
	command.Dir = s.root
	path := filepath.Dir(binary) + string(os.PathListSeparator) + os.Getenv("PATH")
	command.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "PATH="+path)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Minute // for the output of a program in the background
	output, err := command.CombinedOutput()
	if strings.Contains(line, "& ") { // it has started a program, in the process group of the shell
		group := command.Process.Pid
		t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
	}
	return strings.ReplaceAll(string(output), s.temporary+"/", "/tmp/"), err
}
