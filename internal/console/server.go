package console

import (
	"net/http"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/web"
)

// Server logs in the users of an API server: with a bearer token, with the browser's certificate, or with a provider of
// identities. It suits only a console that browsers reach by TLS.
type Server struct {
	// API is the API server, without credentials.
	API *rest.Config
	// Certificates authenticates certificates of browsers. Default: they do not log in.
	Certificates Certificates
	// OIDC is the provider of identities. Default: none.
	OIDC *OIDC
}

// Certificates authenticates a request by its client certificate.
type Certificates interface {
	// Authenticate returns credentials that act as the user of the certificate, or false without a valid certificate.
	Authenticate(r *http.Request) (session.Credentials, bool)
}

func (s Server) name() string   { return "" }
func (s Server) isSecure() bool { return true }

func (s Server) form(r *http.Request) loginForm {
	form := loginForm{}
	if s.OIDC != nil {
		form.OIDC = s.OIDC.Name
	}
	if s.Certificates != nil {
		if c, isValid := s.Certificates.Authenticate(r); isValid {
			form.Certificate = c.Config.Impersonate.UserName
		}
	}
	return form
}

func (s Server) routes(e *entrance) {
	e.console.Handle("POST "+web.Base+"/login", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimSpace(r.PostFormValue("token"))
		if !session.IsToken(token) {
			e.show(w, r, s.form(r), "This is not a bearer token: it is empty, too long, or has characters that tokens do not have.", http.StatusUnprocessableEntity)
			return
		}
		e.begin(w, r, s, session.WithToken(s.API, token))
	}))
	if s.Certificates != nil {
		e.console.Handle("POST "+web.Base+"/login/certificate", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, isValid := s.Certificates.Authenticate(r)
			if !isValid {
				e.show(w, r, s.form(r), "The browser sent no certificate that the API server accepts.", http.StatusUnauthorized)
				return
			}
			if len(r.TLS.PeerCertificates) > 0 {
				c.Expires = r.TLS.PeerCertificates[0].NotAfter
			}
			e.begin(w, r, s, c)
		}))
	}
	if s.OIDC != nil {
		s.OIDC.routes(e, s)
	}
}
