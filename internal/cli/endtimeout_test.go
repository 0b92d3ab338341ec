package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A server that does not stop is ended, and tells what it waited for.
func TestEndAtLast(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stuck.txt")
	ctx, tell := context.WithCancel(t.Context())
	said := make(chan string, 1)
	ended := EndAfterTimeout(ctx, time.Millisecond, file, func(sentence string) { said <- sentence })
	defer ended()
	tell()
	if got := <-said; !strings.Contains(got, "has not stopped within 1ms") || !strings.Contains(got, "report it with "+file) {
		t.Errorf("it says %q", got)
	}
	if stacks, err := os.ReadFile(file); err != nil || !strings.Contains(string(stacks), "TestEndAtLast") {
		t.Errorf("the file does not tell what this test waits for: %v\n%s", err, stacks)
	}
}

// One that has stopped by itself goes on with what comes then.
func TestEndsByItself(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stuck.txt")
	ctx, tell := context.WithCancel(t.Context())
	EndAfterTimeout(ctx, 0, file, func(sentence string) { t.Errorf("it says %q", sentence) })()
	tell()
	if _, err := os.Stat(file); err == nil {
		t.Error("it says that it is stuck")
	}
}
