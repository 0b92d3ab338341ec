// Package console is the web console: pages on which people see and change quota with their own rights. It has no
// rights of its own. Each read and write carries the credentials of the person who is logged in, and the API server
// decides about it. Commands and the standalone server import it.
package console

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/console/administrator"
	"github.com/bursar/bursar/internal/console/fleet"
	"github.com/bursar/bursar/internal/console/requests"
	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/tenant"
	"github.com/bursar/bursar/internal/console/web"
)

// Options configure a console.
type Options struct {
	// Login is how people log in.
	Login Login
	// SystemNamespace is the namespace of Bursar itself. Empty: bursar-system.
	SystemNamespace string
	// Log gets errors, and no secrets.
	Log *slog.Logger
}

// New returns the handler of all paths below [web.Base]. Its sessions and their streams end with ctx.
func New(ctx context.Context, o Options) (http.Handler, error) {
	sessions := session.NewStore(ctx, o.Login.name(), o.Login.isSecure())
	c, err := web.New(sessions, o.Log, areas(o)...)
	if err != nil {
		return nil, err
	}
	l := &entrance{console: c, sessions: sessions, log: o.Log}
	o.Login.routes(l)
	c.Handle("GET "+web.Base+"/login", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.show(w, r, o.Login.form(r), "", http.StatusOK)
	}))
	c.Handle("POST "+web.Base+"/logout", l.logout())
	return c, nil
}

// areas are the parts of the console, in the order of the menu.
func areas(o Options) []web.Area {
	copies := &fleet.Copies{}
	return []web.Area{
		home{copies: copies},
		tenant.Area{},
		requests.Area{Copies: copies},
		administrator.Area{Copies: copies, SystemNamespace: cmp.Or(o.SystemNamespace, config.DefaultSystemNamespace)},
	}
}
