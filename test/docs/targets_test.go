package docs

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// makeCommand is a call of make in a page: in a line of a shell block, or in backquotes.
var makeCommand = regexp.MustCompile("(?m)(?:^make ([a-z-]+)(?:$|  )|`make ([a-z-]+)`)")

// Every target on a page exists.
func TestTargetsExist(t *testing.T) {
	pages, err := exec.Command("git", "-C", "../..", "ls-files", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for page := range strings.Lines(string(pages)) {
		page = strings.TrimSpace(page)
		content, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range makeCommand.FindAllStringSubmatch(string(content), -1) {
			target := match[1] + match[2]
			if named[target] {
				continue
			}
			named[target] = true
			if out, err := exec.Command("make", "-C", "../..", "--dry-run", target).CombinedOutput(); err != nil {
				t.Errorf("%s names make %s, which make does not know: %s", page, target, out)
			}
		}
	}
	if len(named) == 0 {
		t.Error("no page names a target")
	}
}
