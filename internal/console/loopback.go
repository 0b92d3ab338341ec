package console

import (
	"net/http"

	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/web"
)

// Loopback logs in the user of a kubeconfig, with a one-time token. It suits only a console that listens on loopback.
type Loopback struct {
	// Token begins the session.
	Token *session.OneTime
	// Credentials are those of the kubeconfig.
	Credentials session.Credentials
	// Port is where the console listens.
	Port string
}

func (l Loopback) name() string                 { return "-" + l.Port }
func (l Loopback) isSecure() bool               { return false }
func (l Loopback) form(*http.Request) loginForm { return loginForm{OneTime: true} }

func (l Loopback) routes(e *entrance) {
	e.console.Handle("POST "+web.Base+"/login/once", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := l.Token.Use(r.PostFormValue("token")); err != nil {
			if e.sessions.Of(r) != nil { // it logged in this browser
				http.Redirect(w, r, web.Base+pageAfter(r.FormValue("to")), http.StatusSeeOther)
				return
			}
			e.show(w, r, l.form(r), "This one-time token is unknown or was used already. Run bursar console again for another.", http.StatusUnauthorized)
			return
		}
		if !e.begin(w, r, l, l.Credentials) {
			l.Token.Restore() // no session began
		}
	}))
}
