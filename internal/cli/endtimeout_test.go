package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The process of a hanging server ends, and the file shows its goroutines.
func TestEndAfterTimeout(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stuck.txt")
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan string, 1)
	ended := EndAfterTimeout(ctx, time.Millisecond, file, func(sentence string) { said <- sentence })
	defer ended()
	cancel()
	if got := <-said; !strings.Contains(got, "has not stopped within 1ms") || !strings.Contains(got, "report it with "+file) {
		t.Errorf("it says %q", got)
	}
	if stacks, err := os.ReadFile(file); err != nil || !strings.Contains(string(stacks), "TestEndAfterTimeout") {
		t.Errorf("the file does not tell what this test waits for: %v\n%s", err, stacks)
	}
}

// A server that stops by itself meets no timeout.
func TestEndsByItself(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stuck.txt")
	ctx, cancel := context.WithCancel(t.Context())
	EndAfterTimeout(ctx, 0, file, func(sentence string) { t.Errorf("it says %q", sentence) })()
	cancel()
	if _, err := os.Stat(file); err == nil {
		t.Error("it says that it is stuck")
	}
}
