package console

import (
	"embed"
	"io/fs"

	"github.com/bursar/bursar/internal/console/fleet"
	"github.com/bursar/bursar/internal/console/web"
)

// home leads from the first page to the page of quota.
type home struct{ copies *fleet.Copies }

func (home) Templates() fs.FS     { return embed.FS{} }
func (home) Menu() []web.MenuItem { return nil }

func (h home) Routes(r *web.Router) {
	r.Get("/{$}", func(r *web.Request) (web.Answer, error) {
		h.copies.Begin(r) // administrators will look at all consumers
		return web.Redirect{To: "/quota"}, nil
	})
}
