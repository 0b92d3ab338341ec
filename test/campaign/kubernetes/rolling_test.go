package kubernetes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/process"
)

// previous is the version before this one: the commit of the last release or, before the first, of the last state
// through all campaigns.
const previous = "90171ee"

// TestRollingUpgrade replaces every replica of the previous version by one of this, and then back, while clients create
// and delete at the limit. These send each request once. No call fails and nothing is lost.
func TestRollingUpgrade(t *testing.T) {
	t.Attr("proves", "upgrades and downgrades of Bursar under load fail no call")
	if os.Getenv("KUBERNETES_MINOR") == "" {
		t.Skip("it needs a quiet machine for many minutes: make kubernetes-versions runs it")
	}
	former := buildPrevious(t)
	w := newWorld(t)
	latest := w.binary
	w.binary = former
	f := newFaults(t, w)
	f.apis = nil
	for _, server := range w.Servers {
		f.apis = append(f.apis, newPlainClient(t, server))
	}
	for id := range 4 {
		f.load.run(id, f.apis, true, 2, 400*time.Millisecond, f.team)
	}
	f.startLoad()
	began := time.Now()
	f.disturb("nothing happens", func() {})
	for _, step := range []struct{ what, binary string }{{"the upgrade", latest}, {"the downgrade", former}, {"the second upgrade", latest}} {
		t.Log(step.what)
		f.binary = step.binary
		f.replaceAll()
	}
	for text, count := range f.load.failed(began) {
		t.Errorf("%d calls failed while all replicas were upgraded and downgraded: %s", count, text)
	}
	f.load.stop()
	f.wantLedgers()
	f.wantNothingForbidden(t)
}

// buildPrevious builds the operator of the previous version from the history of the repository.
func buildPrevious(t *testing.T) string {
	t.Helper()
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("git", "-C", root, "cat-file", "-e", previous+"^{commit}").Run(); err != nil {
		t.Fatalf("the clone lacks commit %s, the previous version: fetch the history", previous)
	}
	dir := t.TempDir()
	sources, binary := filepath.Join(dir, "sources"), filepath.Join(dir, "bursar-operator")
	run := func(dir string, command ...string) {
		started := exec.Command(command[0], command[1:]...)
		started.Dir = dir
		if output, err := started.CombinedOutput(); err != nil {
			t.Fatal(fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, output))
		}
	}
	if err := os.Mkdir(sources, 0o700); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "sources.tar")
	run(root, "git", "archive", "--output="+archive, previous)
	run(sources, "tar", "-xf", archive)
	run(sources, "go", "build", "-buildvcs=false", "-o", binary, "./cmd/bursar-operator")
	return binary
}
