package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/console/session"
)

const (
	// pageTimeout bounds one page.
	pageTimeout = 30 * time.Second
	// formBytesMax bounds a form, and smallBytesMax one of the usual size: only manifests are larger.
	formBytesMax, smallBytesMax = 1 << 20, 64 << 10
)

// newRooms returns the rooms of a console. Large forms have one of their own, so that they hold up no decision on a
// request, and so have people without a session, so that they hold up nobody with one.
func newRooms() rooms {
	return rooms{
		strangers: room{formsMax: 128, bytesMax: smallBytesMax, timeout: 5 * time.Second},
		small:     room{formsMax: 128, formsOfOne: 6, bytesMax: smallBytesMax, timeout: 10 * time.Second},
		large:     room{formsMax: 16, formsOfOne: 2, bytesMax: formBytesMax, timeout: pageTimeout},
	}
}

// rooms are the rooms for forms.
type rooms struct{ strangers, small, large room }

// Console has the pages of all areas.
type Console struct {
	areas    []Area
	sessions *session.Store
	log      *slog.Logger
	pages    *pages
	mux      *http.ServeMux
	// streams are the places for open streams.
	streams chan struct{}
	rooms   rooms
}

// New returns a console of areas. It leads people without a session to the login page.
func New(sessions *session.Store, log *slog.Logger, areas ...Area) (*Console, error) {
	pages, err := parsePages(areas)
	if err != nil {
		return nil, err
	}
	c := &Console{
		areas: areas, sessions: sessions, log: log, pages: pages, mux: http.NewServeMux(),
		streams: make(chan struct{}, streamsMax), rooms: newRooms(),
	}
	router := &Router{console: c}
	for _, area := range areas {
		area.Routes(router)
	}
	c.mux.Handle("GET "+Base+"/live", c.withSession(c.serveLive))
	c.mux.Handle("GET "+Base+"/assets/", http.StripPrefix(Base+"/assets/", assetsHandler()))
	c.mux.Handle("GET "+Base+"/", c.withSession(func(w http.ResponseWriter, r *Request) {
		c.writeError(w, r, &StatusError{Status: http.StatusNotFound, Message: "There is no page " + r.URL.Path + "."})
	}))
	c.mux.Handle("GET "+Base, http.RedirectHandler(Base+"/", http.StatusMovedPermanently))
	return c, nil
}

// Handle adds a handler that needs no session, such as the login.
func (c *Console) Handle(pattern string, handler http.Handler) { c.mux.Handle(pattern, handler) }

// InRoom bounds a handler that needs no session and reads no form, but calls another server, such as an identity
// provider.
func (c *Console) InRoom(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.received(w, r, &c.rooms.strangers, "", handler) })
}

// received reads a form whole, and then handles it.
func (c *Console) received(w http.ResponseWriter, r *http.Request, in *room, owner string, handler http.Handler) {
	leave, rejection := in.receive(w, r, owner)
	if rejection != nil {
		c.WritePublicError(w, r, rejection.Status, rejection.Message)
		return
	}
	defer leave()
	handler.ServeHTTP(w, r)
}

// ServeHTTP answers requests to paths below [Base].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header(), r)
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		c.mux.ServeHTTP(w, r)
		return
	}
	if err := crossOrigin.Check(r); err != nil {
		c.WritePublicError(w, r, http.StatusForbidden, "This form was sent from another site. Nothing was changed.")
		return
	}

	in, owner := &c.rooms.strangers, ""
	if s := c.sessions.Of(r); s != nil {
		in, owner = &c.rooms.small, s.Owner()
		if r.ContentLength < 0 || r.ContentLength > smallBytesMax {
			in = &c.rooms.large
		}
	}
	c.received(w, r, in, owner, c.mux)
}

// tooManyRequests is the text for a person whose session has no free place.
const tooManyRequests = "This session has too many open requests. Wait for them, and try again."

// crossOrigin denies requests that browsers send for other sites.
var crossOrigin http.CrossOriginProtection

// Router adds pages to the console.
type Router struct{ console *Console }

// Get adds a page at a path without [Base]. A trailing {$} and wildcards are those of [http.ServeMux].
func (r *Router) Get(path string, h Handler) {
	r.console.mux.Handle("GET "+Base+path, r.console.withSession(func(w http.ResponseWriter, request *Request) {
		leave, err := request.Session.Enter()
		if err != nil {
			r.console.writeError(w, request, &StatusError{Status: http.StatusTooManyRequests, Message: tooManyRequests})
			return
		}
		defer leave()
		r.console.answer(w, request, h)
	}))
}

// Post adds an action at a path without [Base]. It runs only for forms of the same session. The console has read them
// already.
func (r *Router) Post(path string, h Handler) {
	r.console.mux.Handle("POST "+Base+path, r.console.withSession(func(w http.ResponseWriter, request *Request) {
		if err := parseForm(request); err != nil {
			r.console.writeError(w, request, err)
			return
		}
		if !request.Session.IsOwnForm(request.PostFormValue("csrf")) {
			r.console.writeError(w, request, &StatusError{Status: http.StatusForbidden, Message: "This form belongs to another session. Open the page again; nothing was changed."})
			return
		}
		r.console.answer(w, request, h)
	}))
}

// parseForm reads a form, also with files.
func parseForm(r *Request) error {
	err := r.ParseForm()
	if err == nil {
		err = r.ParseMultipartForm(formBytesMax)
	}
	if err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return &StatusError{Status: http.StatusBadRequest, Message: "The form cannot be read: " + err.Error() + "."}
	}
	return nil
}

// withSession answers requests with a session, and leads others to the login.
func (c *Console) withSession(h func(http.ResponseWriter, *Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := c.sessions.Of(r)
		if s == nil {
			c.toLogin(w, r)
			return
		}
		h(w, &Request{Request: r, Session: s, api: newReader(s.API)})
	})
}

// toLogin leads to the login, and back to the page afterwards.
func (c *Console) toLogin(w http.ResponseWriter, r *http.Request) {
	to := Base + "/login"
	if path, isBelow := strings.CutPrefix(r.URL.RequestURI(), Base); isBelow && r.Method == http.MethodGet && path != "/" && !strings.HasPrefix(path, "/live") {
		to = Path("/login", "to", path)
	}
	if r.Header.Get("HX-Request") != "" {
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// answer runs a handler and writes its answer.
func (c *Console) answer(w http.ResponseWriter, r *Request, h Handler) {
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	r.Request = r.WithContext(ctx)
	answer, err := h(r)
	if err == nil {
		err = answer.write(c, w, r)
	}
	if session.IsEnded(err) {
		c.sessions.End(w, r.Session)
		c.toLogin(w, r.Request)
		return
	}
	if err != nil {
		c.writeError(w, r, err)
	}
}

// write implements [Answer].
func (a Redirect) write(_ *Console, w http.ResponseWriter, r *Request) error {
	if a.Notice != "" {
		r.Session.SetNotice(a.Notice)
	}
	http.Redirect(w, r.Request, Base+a.To, http.StatusSeeOther)
	return nil
}
