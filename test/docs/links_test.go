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

// docsOnline is where people read the pages that the console, the chart and the commands name.
const docsOnline = "https://github.com/bursar/bursar/blob/main/"

var (
	// namedPage is a page of docs in any text, and templatePage one in a template of the console.
	namedPage    = regexp.MustCompile(`(https?://[^\s"')]*/)?(docs/[\w/.-]+\.md)(#[\w-]+)?`)
	templatePage = regexp.MustCompile(`(?:"Doc" |\{\{doc )"([^"]+)"`)
)

// TestNamedPagesExist proves that each page that the console, the chart, a message or a comment names exists, with its
// heading.
func TestNamedPagesExist(t *testing.T) {
	listed, err := exec.Command("git", "-C", root, "ls-files", "api", "cmd", "deploy", "internal", "sdk").Output()
	if err != nil {
		t.Fatal(err)
	}

	inConsole := 0
	for file := range strings.Lines(string(listed)) {
		file = strings.TrimSpace(file)
		if info, err := os.Lstat(filepath.Join(root, file)); err != nil || !info.Mode().IsRegular() {
			continue // a link to files that are listed themselves
		}
		content := read(t, file)
		pages := namedPage.FindAllStringSubmatch(content, -1)
		for _, match := range templatePage.FindAllStringSubmatch(content, -1) {
			inConsole++
			pages = append(pages, []string{match[0], docsOnline, "docs/" + match[1] + ".md", ""})
		}
		for _, match := range pages {
			if at := match[1]; at != "" && at != docsOnline {
				continue // a page of another project
			}
			if _, err := os.Stat(filepath.Join(root, match[2])); err != nil {
				t.Errorf("%s names %s, which does not exist", file, match[2])
			} else if anchor := strings.TrimPrefix(match[3], "#"); anchor != "" && !slices.Contains(anchorsOf(read(t, match[2])), anchor) {
				t.Errorf("%s names %s, and the page has no such heading", file, match[0])
			}
		}
	}
	if inConsole < 5 {
		t.Errorf("only %d links of the console were found", inConsole)
	}
}

// TestChartNotesLeadOnline proves that the notes of the chart name pages by their URL: whoever installs the chart
// from a registry has no copy of the docs.
func TestChartNotesLeadOnline(t *testing.T) {
	const notes = "deploy/chart/bursar/templates/NOTES.txt"
	pages := namedPage.FindAllStringSubmatch(read(t, notes), -1)
	for _, match := range pages {
		if match[1] != docsOnline {
			t.Errorf("%s names %s without %s", notes, match[2], docsOnline)
		}
	}
	if len(pages) == 0 {
		t.Errorf("%s names no page", notes)
	}
}
