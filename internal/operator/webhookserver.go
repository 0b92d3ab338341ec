package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certutil "k8s.io/client-go/util/cert"
)

// shutdownTime is how long reviews that are being answered may take once the operator stops.
const shutdownTime = 5 * time.Second

// webhookServer serves the webhooks on an address that only this process tells the API server.
type webhookServer struct {
	listener net.Listener
	server   *http.Server
	ca       []byte
}

// newWebhookServer makes a server with a certificate of its own, signed by itself: it is made
// anew at each start, and the API server learns it from the webhook configuration.
func newWebhookServer(listener net.Listener, handler http.Handler, logger logr.Logger) (*webhookServer, error) {
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("listen for webhook calls: %w", err)
		}
	}
	host, _, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("listen for webhook calls: %w", err)
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey(host, []net.IP{net.ParseIP(host)}, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the webhooks: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("load the certificate of the webhooks: %w", err)
	}
	return &webhookServer{
		listener: listener,
		ca:       cert,
		server: &http.Server{
			Handler:           handler,
			TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
			ReadHeaderTimeout: 10 * time.Second,
			ErrorLog:          log.New(logWriter{logger}, "", 0),
		},
	}, nil
}

// clientConfig tells the API server how to reach a path.
func (s *webhookServer) clientConfig(path string) admissionregistrationv1.WebhookClientConfig {
	url := "https://" + s.listener.Addr().String() + path
	return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: s.ca}
}

// run serves until ctx ends, and then finishes what it is answering.
func (s *webhookServer) run(ctx context.Context) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		_ = s.server.Shutdown(ctx) // what is not answered by then fails, as it would without us
	}()
	err := s.server.ServeTLS(s.listener, "", "")
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}
	return fmt.Errorf("serve the webhooks: %w", err)
}

// logWriter makes a logger take the lines of another.
type logWriter struct{ logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.Info(string(line))
	return len(line), nil
}
