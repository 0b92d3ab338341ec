package web

import (
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bursar/bursar/internal/console/session"
)

// area is an area with one page.
type area struct{ page string }

func (a area) Templates() fs.FS {
	return fstest.MapFS{"templates/page.html": &fstest.MapFile{Data: []byte(a.page)}}
}
func (area) Menu() []MenuItem { return nil }
func (area) Routes(*Router)   {}

// A console does not start if a page uses a template that does not exist, even behind a condition.
func TestNewFindsUndefinedTemplates(t *testing.T) {
	for page, want := range map[string]string{
		`{{define "content"}}{{if .Data}}{{range .Data}}{{template "nowhere" .}}{{end}}{{end}}{{end}}`: "nowhere",
		`{{define "content"}}{{template "empty" (part "Title" "x")}}{{end}}`:                           "",
	} {
		_, err := New(session.NewStore(t.Context(), "", false), slog.New(slog.DiscardHandler), area{page})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want an error with %q", page, err, want)
		}
	}
}
