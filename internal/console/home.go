package console

import (
	"embed"
	"io/fs"

	"github.com/bursar/bursar/internal/console/web"
)

// home leads from the first page to the one that a person needs.
type home struct{}

func (home) Templates() fs.FS     { return embed.FS{} }
func (home) Menu() []web.MenuItem { return nil }

func (home) Routes(r *web.Router) {
	r.Get("/{$}", func(*web.Request) (web.Answer, error) { return web.Redirect{To: "/quota"}, nil })
}
