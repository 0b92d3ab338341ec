package console

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/web"
)

// Login is a way to log in: [Loopback] or [Server].
type Login interface {
	// name distinguishes the cookies of consoles on one host.
	name() string
	// isSecure reports whether browsers reach the console by TLS only.
	isSecure() bool
	// form returns the forms of the login page.
	form(r *http.Request) loginForm
	// routes adds the targets of the forms.
	routes(e *entrance)
}

// loginForm is the data of the login page.
type loginForm struct {
	// OneTime asks for a one-time token instead of the API server's.
	OneTime bool
	// OIDC is the name of the provider of identities, or empty.
	OIDC string
	// Certificate is the user of the browser's certificate, or empty.
	Certificate string
	// To is the page to go to after the login, without [web.Base].
	To      string
	Problem string
}

// loginTimeout bounds the wait for the API server's answer about the identity of a person.
const loginTimeout = 20 * time.Second

// pathBytesMax bounds the page to go to after a login.
const pathBytesMax = 2000

// entrance logs people in.
type entrance struct {
	console  *web.Console
	sessions *session.Store
	log      *slog.Logger
}

// show writes the login page.
func (e *entrance) show(w http.ResponseWriter, r *http.Request, form loginForm, problem string, status int) {
	form.Problem, form.To = problem, pageAfter(r.FormValue("to"))
	err := e.console.WritePublic(w, web.Page{Template: "login", Title: "Log in", Data: form, Status: status})
	if err != nil {
		e.log.Error("cannot write the login page", "err", err)
		http.Error(w, "The console cannot show the login page.", http.StatusInternalServerError)
	}
}

// pageAfter returns the page after the login. It is the first page unless to is a path of the console. A path longer
// than pathBytesMax would not fit into a cookie.
func pageAfter(to string) string {
	if len(to) > pathBytesMax || !strings.HasPrefix(to, "/") || strings.ContainsAny(to, "\\\r\n") || strings.HasPrefix(to, "//") {
		return "/"
	}
	return to
}

// begin starts a session, leads to the requested page, and reports whether it did.
func (e *entrance) begin(w http.ResponseWriter, r *http.Request, login Login, c session.Credentials) bool {
	isBegun := e.tryBegin(w, r, login, c, e.sessions.Of(r))
	if isBegun {
		http.Redirect(w, r, web.Base+pageAfter(r.FormValue("to")), http.StatusSeeOther)
	}
	return isBegun
}

// tryBegin starts a session in the place of the former one of the browser, which may be nil, and reports whether it
// did. After a failure, it shows the login page with the problem: the API server does not accept the credentials, or
// does not answer.
func (e *entrance) tryBegin(w http.ResponseWriter, r *http.Request, login Login, c session.Credentials, former *session.Session) bool {
	ctx, cancel := context.WithTimeout(r.Context(), loginTimeout)
	defer cancel()
	_, err := e.sessions.Begin(ctx, w, c, former)
	switch {
	case err == nil:
		return true
	case session.IsEnded(err):
		e.show(w, r, login.form(r), "The API server does not accept these credentials. They may have expired: get others, and try again.", http.StatusUnauthorized)
	default:
		e.log.Error("cannot log in", "err", err)
		e.show(w, r, login.form(r), "The login at the API server failed: "+err.Error()+".", http.StatusBadGateway)
	}
	return false
}

// logout ends the session of a request.
func (e *entrance) logout() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := e.sessions.Of(r); s != nil && s.IsOwnForm(r.PostFormValue("csrf")) {
			e.sessions.End(w, s)
		}
		http.Redirect(w, r, web.Base+"/login", http.StatusSeeOther)
	})
}
