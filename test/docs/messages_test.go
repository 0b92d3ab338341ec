package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMessagesAreSaid holds the quotations in the first column of a table to the code. A text in back quotes there is a
// message, or the name of a metric, event or field; "..." stands for any text.
func TestMessagesAreSaid(t *testing.T) {
	pages := read(t, "docs/reference/messages.md") + read(t, "docs/tasks/troubleshooting.md")
	code := readCode(t)
	quoted := regexp.MustCompile("`([^`]+)`")
	quotes := 0
	for line := range strings.Lines(pages) {
		if !strings.HasPrefix(line, "| `") || strings.HasPrefix(line, "| `kubectl") {
			continue
		}
		cell, _, _ := strings.Cut(line[2:], " | ")
		for _, quote := range quoted.FindAllStringSubmatch(cell, -1) {
			quotes++
			for part := range strings.SplitSeq(quote[1], "...") {
				if part = strings.Trim(part, " "); part != "" && !strings.Contains(code, part) {
					t.Errorf("%q is said nowhere: %q", quote[1], part)
				}
			}
		}
	}
	if quotes < 20 {
		t.Errorf("only %d quotes were found", quotes)
	}
}

// readCode returns all code but tests, and joins the pieces of a message on several lines.
func readCode(t *testing.T) string {
	t.Helper()
	var code strings.Builder
	for _, folder := range []string{"api", "cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			code.Write(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return regexp.MustCompile(`"\s*\+\s*"`).ReplaceAllString(code.String(), "")
}
