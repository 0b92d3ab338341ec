package tidy

import (
	"slices"
	"strings"
	"testing"
)

// rule says what the packages below a folder may not import.
type rule struct {
	// folder and, unless isDeep, nothing below it.
	folder string
	isDeep bool
	// denied are folders of the repository, with all that is below them.
	denied []string
	// standardOnly allows nothing but the standard library.
	standardOnly bool
	why          string
}

var rules = []rule{
	{folder: "internal/ledger", standardOnly: true, why: "the engine of ledgers is pure, and imports the standard library only"},
	{folder: "internal/admission", isDeep: true, denied: []string{"internal/controller"}, why: "webhooks and controllers share stores and caches, and do not import each other"},
	{folder: "internal/controller", isDeep: true, denied: []string{"internal/admission"}, why: "webhooks and controllers share stores and caches, and do not import each other"},
	{folder: "internal/kube", isDeep: true, denied: []string{"internal/ledger", "internal/allocation", "internal/catalog", "internal/claims", "internal/admission", "internal/controller"},
		why: "kube knows the API server and no quota"},
	{folder: "sdk", isDeep: true, denied: []string{"internal"}, why: "services that use the SDK get the API and nothing else of Bursar"},
	{folder: "api", isDeep: true, denied: []string{"internal", "sdk"}, why: "the API depends on nothing of Bursar"},
}

func TestImports(t *testing.T) {
	files := sources(t, "api", "cmd", "internal", "sdk")
	for _, r := range rules {
		if !slices.ContainsFunc(files, func(f *file) bool { return r.applies(f.folder()) }) {
			t.Errorf("there is nothing in %s: correct the rule that %s", r.folder, r.why)
		}
	}
	for _, f := range files {
		for _, imported := range f.importsOf() {
			for _, r := range rules {
				if r.applies(f.folder()) && r.denies(imported) {
					t.Errorf("%s imports %s: %s", f.path, imported, r.why)
				}
			}
			if imported == module+"/internal/operator" && !mayCompose(f.folder()) {
				t.Errorf("%s imports %s: nothing but commands imports the composition", f.path, imported)
			}
		}
	}
}

// mayCompose reports whether a package is a command, or what commands are made of.
func mayCompose(folder string) bool {
	return isIn(folder, "cmd") || folder == "internal/cli" || isIn(folder, "internal/cli/status") || folder == "internal/standalone"
}

func (r rule) applies(folder string) bool {
	return folder == r.folder || r.isDeep && isIn(folder, r.folder)
}

func (r rule) denies(imported string) bool {
	if r.standardOnly {
		return strings.Contains(strings.Split(imported, "/")[0], ".")
	}
	folder, isOwn := strings.CutPrefix(imported, module+"/")
	return isOwn && slices.ContainsFunc(r.denied, func(denied string) bool { return isIn(folder, denied) })
}

// isIn reports whether a folder is another one or below it.
func isIn(folder, parent string) bool {
	return folder == parent || strings.HasPrefix(folder, parent+"/")
}
