// Package serveconsole runs the web console: for the user of a kubeconfig on loopback, and for the users of a cluster.
package serveconsole

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/bursar/bursar/internal/console"
	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/web"
)

const (
	// headerTimeout, requestTimeout and idleTimeout bound a request, and a connection without one. Streams extend the
	// time for their answer as long as the browser reads.
	headerTimeout, requestTimeout, idleTimeout = 10 * time.Second, time.Minute, 2 * time.Minute
	headerBytesMax                             = 64 << 10
	// endTimeout is how long open requests may take once the console ends.
	endTimeout = 5 * time.Second
)

// LoopbackOptions are those of a console for one user.
type LoopbackOptions struct {
	// Credentials are those of the user.
	Credentials session.Credentials
	// SystemNamespace is the namespace of Bursar itself.
	SystemNamespace string
	// Port is the port to listen on. Zero: a free one.
	Port int
	// Page is the path of the page behind the URL, below [web.Base].
	Page string
}

// Loopback serves a user on a port of loopback until ctx ends, and prints the URL to open.
func Loopback(ctx context.Context, o LoopbackOptions, out io.Writer) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return fmt.Errorf("the console cannot listen: %w; choose another --port", err)
	}
	token := session.NewOneTime()
	_, listening, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	handler, err := console.New(ctx, console.Options{
		Login: console.Loopback{Token: token, Credentials: o.Credentials, Port: listening}, SystemNamespace: o.SystemNamespace, Log: log(),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The console runs until you interrupt it. Open this URL; it logs in once:\n\n  http://%s%s/login?to=%s#token=%s\n\n", //nolint:errcheck // there is nobody else to report to
		listener.Addr(), web.Base, url.QueryEscape(o.Page), token.Secret())
	return serve(ctx, listener, onlyHosts(handler, "127.0.0.1:"+listening, "localhost:"+listening), nil)
}

// onlyHosts denies requests to other hosts: with a name of its own, another site could make a browser send them here.
func onlyHosts(handler http.Handler, hosts ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, host := range hosts {
			if strings.EqualFold(r.Host, host) {
				handler.ServeHTTP(w, r)
				return
			}
		}
		http.Error(w, "The console answers to "+strings.Join(hosts, " and ")+" only.", http.StatusMisdirectedRequest)
	})
}

// cluster describes a console for the users of a cluster.
type cluster struct {
	// listen is the host:port to listen on.
	listen string
	// certFile and keyFile are those of TLS. The console reads them again after a change. Without them a proxy in front
	// has to terminate TLS: browsers accept the cookie of a session by TLS only.
	certFile, keyFile string
	login             console.Server
	systemNamespace   string
}

// run serves until ctx ends.
func (c cluster) run(ctx context.Context) error {
	handler, err := console.New(ctx, console.Options{Login: c.login, SystemNamespace: c.systemNamespace, Log: log()})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.listen)
	if err != nil {
		return fmt.Errorf("the console cannot listen: %w; choose another --listen", err)
	}
	mux := http.NewServeMux()
	mux.Handle(web.Base+"/", handler)
	mux.Handle("GET /{$}", http.RedirectHandler(web.Base+"/", http.StatusFound))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	if c.certFile == "" {
		return serve(ctx, listener, mux, nil)
	}
	certificate, err := certwatcher.New(c.certFile, c.keyFile)
	if err != nil {
		return errors.Join(fmt.Errorf("read the certificate in %s: %w", c.certFile, err), listener.Close())
	}
	return serve(ctx, listener, mux, certificate)
}

// serve serves until ctx ends, with TLS if there is a certificate.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, certificate *certwatcher.CertWatcher) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(log().Handler(), slog.LevelDebug),
	}
	group, ctx := errgroup.WithContext(ctx)
	if certificate != nil {
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate.GetCertificate}
		group.Go(func() error { return certificate.Start(ctx) })
	}
	group.Go(func() error {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if err := server.Shutdown(ending); err != nil {
			return server.Close() // cuts off requests still open
		}
		return nil
	})
	group.Go(func() error {
		var err error
		if certificate != nil {
			err = server.ServeTLS(listener, "", "")
		} else {
			err = server.Serve(listener)
		}
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serve the console: %w", err)
	})
	return group.Wait()
}

// log returns the log of the console: errors, on the error output.
func log() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }
