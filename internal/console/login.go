package console

import (
	"log/slog"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/web"
)

// Login is a way to log in: [Loopback] or [Tokens].
type Login interface {
	// name tells the cookies of consoles on one host apart.
	name() string
	// isSecure reports whether the console is only reached by TLS.
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

// entrance logs people in.
type entrance struct {
	console  *web.Console
	sessions *session.Store
	log      *slog.Logger
}

// show writes the login page.
func (e *entrance) show(w http.ResponseWriter, r *http.Request, form loginForm, problem string, status int) {
	form.Problem, form.To = problem, pageAfter(r)
	err := e.console.WritePublic(w, web.Page{Template: "login", Title: "Log in", Data: form, Status: status})
	if err != nil {
		e.log.Error("cannot write the login page", "err", err)
		http.Error(w, "The console cannot show the login page.", http.StatusInternalServerError)
	}
}

// pageAfter returns the page to go to after the login: a path of the console, whatever the request asks for.
func pageAfter(r *http.Request) string {
	to := r.FormValue("to")
	if !strings.HasPrefix(to, "/") || strings.ContainsAny(to, "\\\r\n") || strings.HasPrefix(to, "//") {
		return "/"
	}
	return to
}

// begin begins a session and leads to the page that was asked for.
func (e *entrance) begin(w http.ResponseWriter, r *http.Request, login Login, c session.Credentials) {
	if _, err := e.sessions.Begin(r.Context(), w, c); err != nil {
		if session.IsEnded(err) {
			e.show(w, r, login.form(r), "The API server does not accept these credentials. They may have expired: get others, and try again.", http.StatusUnauthorized)
			return
		}
		e.log.Error("cannot log in", "err", err)
		e.show(w, r, login.form(r), "The API server could not be asked: "+err.Error()+".", http.StatusBadGateway)
		return
	}
	http.Redirect(w, r, web.Base+pageAfter(r), http.StatusSeeOther)
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

// Loopback logs in the user of a kubeconfig, with a one-time token. It is for a console that listens on loopback alone.
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
			e.show(w, r, l.form(r), "This one-time token is unknown or was used already. Run bursar console again for another.", http.StatusUnauthorized)
			return
		}
		e.begin(w, r, l, l.Credentials)
	}))
}

// Tokens logs in with a bearer token of the API server. It is for a console that is reached by TLS.
type Tokens struct {
	// Server is the API server, without credentials.
	Server *rest.Config
}

func (t Tokens) name() string                 { return "" }
func (t Tokens) isSecure() bool               { return true }
func (t Tokens) form(*http.Request) loginForm { return loginForm{} }

func (t Tokens) routes(e *entrance) {
	e.console.Handle("POST "+web.Base+"/login", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimSpace(r.PostFormValue("token"))
		if !session.IsToken(token) {
			e.show(w, r, t.form(r), "This is no bearer token: it is empty, too long, or has characters that tokens do not have.", http.StatusUnprocessableEntity)
			return
		}
		e.begin(w, r, t, session.WithToken(t.Server, token))
	}))
}
