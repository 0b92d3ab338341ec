package browser

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp/kb"

	"github.com/bursar/bursar/test/process"
)

// The documentation shows its pages and draws its diagrams from a folder, without a network.
func TestSite(t *testing.T) {
	p, diagrams := atSite(t)
	for _, v := range views {
		p.looks(v)
		for _, page := range []string{"index.html", "docs/tasks/install.html", diagrams} {
			p.opensPage(page)
			p.wantAccessible(page + ", " + v.name)
		}
	}
	p.wantNoProblems()
}

// A person finds a page by keyboard.
func TestSearchOfTheSite(t *testing.T) {
	const page = "docs/reference/api.html"
	p, _ := atSite(t)
	p.opensPage("docs/tasks/install.html")
	p.press("/")
	p.types("xyzzyplugh")
	p.sees("Nothing found")
	ask[bool](p, "document.getElementById('search').select() ?? true")
	p.types(ask[string](p, fmt.Sprintf("window.searchIndex.find((r) => r.url === %q).page", page)))
	p.waitFor("#results a")
	p.wantAccessible("results of a search")
	p.press(kb.ArrowDown)
	p.press(kb.Enter)
	p.until(func() error {
		if at := ask[string](p, "location.href"); !strings.HasPrefix(at, p.base+"/"+page) {
			return fmt.Errorf("the first result leads to %s, want %s", at, page)
		}
		return nil
	})
	p.wantNoProblems()
}

// The choice of colours stays, and diagrams follow it.
func TestColoursOfTheSite(t *testing.T) {
	p, diagrams := atSite(t)
	p.opensPage(diagrams)
	const style = "document.querySelector('.diagram style').textContent"
	before := ask[string](p, style)
	p.click("#theme")
	p.until(func() error {
		if ask[string](p, "document.querySelector('.diagram style')?.textContent ?? ''") == before {
			return fmt.Errorf("the diagram keeps its colours:\n%s", before)
		}
		return nil
	})
	p.opensPage("index.html")
	if chosen := ask[string](p, "document.documentElement.dataset.theme"); chosen != "dark" {
		t.Errorf("the next page is %q, want dark", chosen)
	}
	p.wantAccessible("index.html, in chosen colours")
	p.wantNoProblems()
}

// atSite builds the site and opens a browser for it. It also returns a page with diagrams.
func atSite(t *testing.T) (p *person, diagrams string) {
	t.Helper()
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "site")
	for _, command := range [][]string{{"hack/site/install"}, {"go", "run", "./hack/site", "-out", out}} {
		build := exec.CommandContext(t.Context(), command[0], command[1:]...)
		build.Dir = root
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, output)
		}
	}
	err = filepath.WalkDir(out, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".html" || diagrams != "" {
			return err
		}
		content, err := os.ReadFile(name)
		if bytes.Contains(content, []byte("language-mermaid")) {
			diagrams, _ = filepath.Rel(out, name) // both are absolute
		}
		return err
	})
	if err != nil || diagrams == "" {
		t.Fatalf("no page has a diagram: %v", err)
	}
	p = opens(t, "reader", "file://"+out)
	p.do(call(network.Enable, network.EnableParams{}))
	return p, diagrams
}

// opensPage opens a page of the site and waits until its scripts are done: all diagrams are drawn.
func (p *person) opensPage(page string) {
	p.Helper()
	p.open(p.base + "/" + page)
	p.waitFor("#theme")
	p.until(func() error {
		if left := ask[int](p, "document.querySelectorAll('code.language-mermaid').length"); left > 0 {
			return fmt.Errorf("%s: %d diagrams are not drawn: %q", page, left, p.problems)
		}
		return nil
	})
}

// types presses the keys of a text.
func (p *person) types(text string) {
	p.Helper()
	for _, letter := range text {
		p.press(string(letter))
	}
}
