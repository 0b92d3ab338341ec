package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/bursar/bursar/internal/console"
	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/web"
)

// serveConsole makes the API server answer the paths of the console. The console's sessions end with ctx. The API
// server authenticates the console's users, and authorizes each request of the console for them.
func serveConsole(ctx context.Context, config *genericapiserver.Config) error {
	handler, err := console.New(ctx, console.Options{
		Login: console.Server{
			API:          rest.AnonymousClientConfig(config.LoopbackClientConfig),
			Certificates: certificates{authenticator: config.Authentication.Authenticator, loopback: config.LoopbackClientConfig},
		},
		Log: slog.New(logr.ToSlogHandler(klog.Background())),
	})
	if err != nil {
		return fmt.Errorf("make the console: %w", err)
	}
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(apiHandler http.Handler, c *genericapiserver.Config) http.Handler {
		api := build(apiHandler, c)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == web.Base || strings.HasPrefix(r.URL.Path, web.Base+"/") {
				handler.ServeHTTP(w, r)
				return
			}
			api.ServeHTTP(w, r)
		})
	}
	return nil
}

// certificates authenticates client certificates as the API server does.
type certificates struct {
	authenticator authenticator.Request
	loopback      *rest.Config
}

// Authenticate implements [console.Certificates]. The credentials impersonate the user within this process.
func (c certificates) Authenticate(r *http.Request) (session.Credentials, bool) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return session.Credentials{}, false
	}
	// Only the certificate counts, and nothing else in the request.
	byCertificate := (&http.Request{Method: http.MethodGet, URL: r.URL, Header: http.Header{}, TLS: r.TLS, RemoteAddr: r.RemoteAddr}).WithContext(r.Context())
	answer, isKnown, err := c.authenticator.AuthenticateRequest(byCertificate)
	if err != nil || !isKnown || answer.User.GetName() == "system:anonymous" {
		return session.Credentials{}, false
	}
	config := rest.CopyConfig(c.loopback)
	config.Impersonate = rest.ImpersonationConfig{UserName: answer.User.GetName(), UID: answer.User.GetUID(), Groups: answer.User.GetGroups(), Extra: answer.User.GetExtra()}
	return session.Credentials{Config: config}, true
}
