package process

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// shownLines is the number of last lines of a log to show if its test fails, and shownLength the number of bytes of
// each. The reason of the failure is among them.
const shownLines, shownLength = 12, 300

// End returns the last lines of a log, each cut to a length.
func End(log string) string {
	lines := slices.Collect(strings.Lines(log))
	lines = lines[max(0, len(lines)-shownLines):]
	for i, line := range lines {
		if len(line) > shownLength {
			lines[i] = line[:shownLength] + "…\n"
		}
	}
	return strings.Join(lines, "")
}

// Command is a program beside a test. The test may kill, stop and continue it, and may start it again with the same
// arguments.
type Command struct {
	t         testing.TB
	name      string
	binary    string
	arguments []string
	ready     func(context.Context) error
	log       string

	command *exec.Cmd
	ended   chan struct{}
}

// Run starts a program, and kills it at the end of the test. The name is for messages. WaitReady calls ready to find
// out whether the program is ready.
func Run(t testing.TB, name string, ready func(context.Context) error, binary string, arguments ...string) *Command {
	t.Helper()
	c := &Command{t: t, name: name, binary: binary, arguments: arguments, ready: ready, log: filepath.Join(t.TempDir(), "log")}
	c.Start()
	t.Cleanup(func() {
		c.Kill()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", name, End(c.Output()))
		}
	})
	return c
}

// Start starts the program again, once it has ended.
func (c *Command) Start() {
	c.t.Helper()
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // the program has its own
	command, ended := exec.Command(c.binary, c.arguments...), make(chan struct{})
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		c.t.Fatalf("start %s: %v", c.name, err)
	}
	c.command, c.ended = command, ended
	go func() {
		_ = command.Wait()
		close(ended)
	}()
}

// WaitReady waits until the program is ready, and fails the test if it ends before.
func (c *Command) WaitReady() {
	c.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(c.t.Context(), 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-c.ended:
			c.t.Fatalf("%s ended before it was ready", c.name)
		default:
		}
		last = c.ready(ctx)
		return last == nil, nil
	})
	if err != nil {
		c.t.Fatalf("%s was not ready after %s: %v", c.name, startTimeout, last)
	}
}

// Signal sends a signal. The signal has no effect on an ended program.
func (c *Command) Signal(s syscall.Signal) { _ = c.command.Process.Signal(s) }

// Kill ends the program like a power cut, and waits for its end.
func (c *Command) Kill() {
	c.Signal(syscall.SIGKILL)
	<-c.ended
}

// Output is the output of the program so far, in all its runs.
func (c *Command) Output() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}
