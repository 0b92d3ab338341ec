package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// pageLink is a link from a page to a place other than a URL.
	pageLink = regexp.MustCompile(`\]\(([^)\s:]+)\)`)
	// fence is a block of code, and inline is code in a line.
	fence  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	inline = regexp.MustCompile("`[^`\\n]*`")
	// notInAnchors are the characters of a heading left out of its anchor.
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	markup       = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// TestLinksLeadSomewhere proves that each link between pages leads to a file, and to a heading of it.
func TestLinksLeadSomewhere(t *testing.T) {
	listed, err := exec.Command("git", "-C", root, "ls-files", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for page := range strings.Lines(string(listed)) {
		page = strings.TrimSpace(page)
		for _, match := range pageLink.FindAllStringSubmatch(prose(read(t, page)), -1) {
			links++
			path, anchor, _ := strings.Cut(match[1], "#")
			target := filepath.Join(filepath.Dir(page), path)
			if path == "" {
				target = page
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, match[1])
				continue
			}
			if anchor != "" && strings.HasSuffix(target, ".md") && !slices.Contains(anchorsOf(read(t, target)), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", page, match[1], target)
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were found", links)
	}
}

// TestProjectPages proves that the expected pages of a project exist, and that the README leads to them.
func TestProjectPages(t *testing.T) {
	readme := read(t, "README.md")
	if words := len(strings.Fields(readme)); words > 600 {
		t.Errorf("README.md has %d words, and more than 600 are too many for a first look", words)
	}
	for _, page := range []string{"LICENSE", "SECURITY.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "GOVERNANCE.md", "CHANGELOG.md", "docs/reference/stability.md"} {
		if !strings.Contains(readme, "]("+page+")") {
			t.Errorf("README.md does not link to %s", page)
		}
		if len(read(t, page)) < 500 {
			t.Errorf("%s says nothing", page)
		}
	}
	for line := range strings.Lines(read(t, "CHANGELOG.md")) {
		if heading, ok := strings.CutPrefix(line, "### "); ok && !slices.Contains([]string{"Added", "Changed", "Fixed"}, strings.TrimSpace(heading)) {
			t.Errorf("CHANGELOG.md has the heading %s", heading)
		}
	}
}

// anchorsOf returns the anchors of the headings of a page, as GitHub makes them, and the explicit ones.
func anchorsOf(page string) []string {
	var anchors []string
	for line := range strings.Lines(fence.ReplaceAllString(page, "")) {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			heading = markup.ReplaceAllString(strings.TrimSpace(heading), "$1")
			anchors = append(anchors, strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-"))
		}
	}
	for _, match := range regexp.MustCompile(`<a (?:id|name)="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		anchors = append(anchors, match[1])
	}
	return anchors
}

// prose returns a page without code. The text of a link in code style stays empty.
func prose(page string) string {
	return inline.ReplaceAllString(fence.ReplaceAllString(page, ""), "")
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
