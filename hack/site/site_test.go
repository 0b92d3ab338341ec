package main

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// small returns a repository with one page of each section, changed by more files. Empty ones are deleted.
func small(changes map[string]string) fstest.MapFS {
	files := map[string]string{
		"go.mod":                   "module github.com/example/till\n",
		"README.md":                "# Till\n\n![picture](docs/images/till.png) [Docs](docs/README.md), [code](cmd/till), [licence](LICENSE)\n",
		"LICENSE":                  "free",
		"SECURITY.md":              "# Security\n",
		"cmd/till/main.go":         "package main",
		"docs/images/till.png":     "png",
		"docs/README.md":           "# Documentation\n\n## How do I\n\n- [Pay](tasks/pay.md): pay\n- [Count](tasks/count.md)\n\n## Why\n\n- [Design](design.md)\n",
		"docs/design.md":           "# Design\n\n| | b |\n| --- | --- |\n\n```mermaid\nflowchart LR\n  a --> b\n```\n",
		"docs/tasks/count.md":      "# Count\n\n## Coins\n\nThe `drawer` counts *coins*.\n\n## Coins\n\n| coin | worth |\n| --- | --- |\n| dime | ten |\n",
		"docs/tasks/pay.md":        "# Pay\n\nSee [coins](count.md#coins-1), [main](../../cmd/till/main.go#L1), [site](https://example.com).\n",
		"docs/tasks/abort.md":      "# Abort\n",
		"docs/reference/README.md": "# Reference\n",
	}
	maps.Copy(files, changes)
	tree := fstest.MapFS{}
	for name, content := range files {
		if content != "" {
			tree[name] = &fstest.MapFile{Data: []byte(content)}
		}
	}
	return tree
}

func built(t *testing.T, source fs.FS, libraries map[string][]byte) map[string]string {
	t.Helper()
	files, err := build(source, libraries)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for name, content := range files {
		texts[name] = string(content)
	}
	return texts
}

func TestPagesOfASmallTree(t *testing.T) {
	files := built(t, small(nil), nil)
	for name, want := range map[string][]string{
		"index.html": {
			`<title>Till – Bursar</title>`, `<h1 id="till">Till</h1>`, `src="docs/images/till.png"`, `href="docs/index.html"`,
			`href="https://github.com/example/till/tree/HEAD/cmd/till"`, `href="https://github.com/example/till/blob/HEAD/LICENSE"`,
		},
		"docs/index.html": {`<a href="tasks/pay.html">Pay</a>: pay`},
		"docs/tasks/pay.html": {
			`href="count.html#coins-1"`, `href="https://github.com/example/till/blob/HEAD/cmd/till/main.go#L1"`, `href="https://example.com"`,
			`href="../../site.css"`, `<a class="brand" href="../../index.html">`, `<a rel="next" href="count.html">Count →</a>`,
			`<a href="https://github.com/example/till/blob/HEAD/docs/tasks/pay.md">Source of this page</a>`,
		},
		"docs/tasks/count.html":     {`<h2 id="coins">`, `<h2 id="coins-1">`, `<a href="#coins-1">Coins</a>`, `<a rel="prev" href="pay.html">`},
		"docs/design.html":          {`<code class="language-mermaid">`, "<td></td>\n<th>b</th>"},
		"docs/reference/index.html": {`<h1 id="reference">`},
		"docs/images/till.png":      {"png"},
	} {
		for _, part := range want {
			if !strings.Contains(files[name], part) {
				t.Errorf("%s has no %s:\n%s", name, part, files[name])
			}
		}
	}
}

func TestDeadLinksFail(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want string
	}{
		"page":                  {"[x](no.md)", "docs/tasks/abort.md links to no.md: the repository has no such file"},
		"page of another":       {"[x](../no/x.md#y)", "docs/tasks/abort.md links to ../no/x.md#y: the repository has no such file"},
		"source":                {"[x](../../cmd/no.go)", "docs/tasks/abort.md links to ../../cmd/no.go: the repository has no such file"},
		"out of the repository": {"[x](../../../pay.md)", "docs/tasks/abort.md links to ../../../pay.md: the repository has no such file"},
		"from the root":         {"[x](/README.md)", "docs/tasks/abort.md links to /README.md: the repository has no such file"},
		"heading":               {"[x](count.md#notes)", "docs/tasks/abort.md links to count.html#notes: docs/tasks/count.md has no such heading"},
		"repeated heading":      {"[x](count.md#coins-2)", "docs/tasks/abort.md links to count.html#coins-2: docs/tasks/count.md has no such heading"},
		"heading of itself":     {"[x](#coins)", "docs/tasks/abort.md links to abort.html#coins: docs/tasks/abort.md has no such heading"},
		"image":                 {"![x](../images/no.png)", "docs/tasks/abort.md links to ../images/no.png: the repository has no such file"},
		"HTML":                  {`<a href="no.html">x</a>`, "docs/tasks/abort.md links to no.html: the repository has no such file"},
		"image of another host": {"![x](https://example.com/x.png)", "docs/tasks/abort.md needs https://example.com/x.png, and the site must work without a network: put it into docs"},
		"script":                {`<script src="//example.com/x.js"></script>`, "docs/tasks/abort.md needs //example.com/x.js, and the site must work without a network: put it into docs"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build(small(map[string]string{"docs/tasks/abort.md": "# Abort\n\n" + test.text + "\n"}), nil)
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestLinksToAnchorsInHTML(t *testing.T) {
	built(t, small(map[string]string{"docs/tasks/abort.md": "# Abort\n\n<a id=\"x\"></a>[x](#x) [y](pay.md#pay) ![z](data:image/png;base64,AA==)\n"}), nil)
}

func TestInvalidTreesFail(t *testing.T) {
	for name, test := range map[string]struct {
		changes map[string]string
		want    string
	}{
		"without a heading": {map[string]string{"docs/tasks/abort.md": "Stop.\n"}, "docs/tasks/abort.md has no heading; begin it with a line like # Title"},
		"two for one path": {map[string]string{"docs/tasks/README.md": "# Tasks\n", "docs/tasks/index.md": "# Tasks\n"},
			"docs/tasks/index.md and another file both become docs/tasks/index.html of the site"},
		"without a module": {map[string]string{"go.mod": ""}, "find the repository: open go.mod: file does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build(small(test.changes), nil)
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestNavigation(t *testing.T) {
	for name, test := range map[string]struct {
		changes map[string]string
		want    []string
	}{
		"in the order of the index, then the rest of each folder": {nil, []string{"How do I: Pay, Count, Abort", "Why: Design", "Reference: Reference", "Project: Security"}},
		"a listed page of the root": {
			map[string]string{"docs/README.md": "# Docs\n\n## Help\n\n[Security](../SECURITY.md) [pay](tasks/pay.md) [again](tasks/pay.md)\n", "GOVERNANCE.md": "# Governance\n"},
			[]string{"Help: Security, Pay, Abort, Count", "Reference: Reference", "Docs: Design", "Project: Governance"},
		},
		"a page of an introduction": {
			map[string]string{"docs/README.md": "# Docs\n\n## Start\n\n[pay](tasks/pay.md) [design](design.md)\n\n## Help\n\n[Count](tasks/count.md) [Pay](tasks/pay.md)\n"},
			[]string{"Start: Design", "Help: Count, Pay, Abort", "Reference: Reference", "Project: Security"},
		},
		"without an index": {
			map[string]string{"docs/README.md": "", "README.md": "# Till\n", "docs/tutorials/one.md": "# One\n", "docs/tasks/more/two.md": "# Two\n"},
			[]string{"Tutorials: One", "Tasks: Abort, Count, Pay", "More: Two", "Reference: Reference", "Docs: Design", "Project: Security"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pages, _, err := read(small(test.changes))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range navigation(pages) {
				var titles []string
				for _, p := range s.pages {
					titles = append(titles, p.title)
				}
				got = append(got, s.title+": "+strings.Join(titles, ", "))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("unexpected sections (-want +got):\n%s", diff)
			}
		})
	}
}

// The pages of this repository have no dead link, and the search finds each of them.
func TestSearchHasEachPage(t *testing.T) {
	root := os.DirFS("../..")
	files := built(t, root, map[string][]byte{searchLibrary: nil})
	indexed := indexOf(t, files)
	pages := 0
	for name := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		pages++
		if !slices.ContainsFunc(indexed, func(r record) bool { return r.URL == name }) {
			t.Errorf("the search does not know %s", name)
		}
	}
	if pages < 30 {
		t.Errorf("the site has only %d pages", pages)
	}
}

func TestSearchHasTheTextOfEachHeading(t *testing.T) {
	tree := small(map[string]string{"docs/design.md": "# Design\n\n<!-- search: plan, why -->\n\n| | b |\n| --- | --- |\n\n<!-- made -->\n"})
	got := slices.DeleteFunc(indexOf(t, built(t, tree, nil)), func(r record) bool { return r.Page != "Count" && r.Page != "Design" })
	want := []record{
		{URL: "docs/design.html", Page: "Design", Text: "b", Keywords: "plan, why"},
		{URL: "docs/tasks/count.html", Page: "Count"},
		{URL: "docs/tasks/count.html#coins", Page: "Count", Heading: "Coins", Text: "The drawer counts coins."},
		{URL: "docs/tasks/count.html#coins-1", Page: "Count", Heading: "Coins", Text: "coin worth dime ten"},
	}
	for i := range got {
		got[i].ID = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected records (-want +got):\n%s", diff)
	}
}

// Scripts are used only where they are there, and diagrams only load theirs on pages with any.
func TestLibraries(t *testing.T) {
	with := built(t, small(nil), map[string][]byte{searchLibrary: []byte("search"), diagramLibrary: []byte("draw")})
	without := built(t, small(nil), nil)
	for name, want := range map[string]map[string]bool{
		`<script src="../libraries/mermaid.js"`:    {"docs/design.html": true, "docs/index.html": false},
		`<script src="../libraries/minisearch.js"`: {"docs/design.html": true, "docs/index.html": true},
		`<input id="search"`:                       {"docs/design.html": true, "docs/index.html": true},
	} {
		for page, want := range want {
			if got := strings.Contains(with[page], name); got != want {
				t.Errorf("%s with libraries: %s is %t, want %t", page, name, got, want)
			}
			if strings.Contains(without[page], name) {
				t.Errorf("%s without libraries has %s", page, name)
			}
		}
	}
}

// A site replaces an earlier one, and nothing else.
func TestWrite(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	for _, files := range []map[string][]byte{{searchIndex: nil, "old.html": nil}, {searchIndex: nil, "docs/new.html": []byte("new")}} {
		if err := write(out, files); err != nil {
			t.Fatal(err)
		}
	}
	if content, err := os.ReadFile(filepath.Join(out, "docs/new.html")); err != nil || string(content) != "new" {
		t.Errorf("docs/new.html is %q, %v", content, err)
	}
	if _, err := os.Stat(filepath.Join(out, "old.html")); err == nil {
		t.Error("old.html of the earlier site is left")
	}
	other := t.TempDir()
	if err := write(other, map[string][]byte{"new.html": nil}); err == nil {
		t.Error("a folder that is no site is replaced")
	}
}
