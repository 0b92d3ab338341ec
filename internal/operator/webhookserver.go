package operator

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certutil "k8s.io/client-go/util/cert"

	"github.com/bursar/bursar/internal/admission/access"
	"github.com/bursar/bursar/internal/admission/certs"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
	"github.com/bursar/bursar/internal/naming"
)

// shutdownTime is how long reviews that are being answered may take once the operator stops.
const shutdownTime = 5 * time.Second

// certificates is what the webhooks are served by.
type certificates interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Bundle returns the authorities that the API server is to check it by, in PEM.
	Bundle() []byte
	// IsCheckedBy tells whether one of some authorities, in PEM, is that of the certificate that is served.
	IsCheckedBy(authorities []byte) bool
	// Ready tells why there is nothing to serve by, or returns nil.
	Ready() error
	// Run keeps the certificate until ctx ends.
	Run(ctx context.Context) error
}

// webhookServer serves the webhooks.
type webhookServer struct {
	certificates certificates
	listener     net.Listener
	server       *http.Server
	delay        time.Duration
	// host is the name or address that the certificate is for.
	host string
	// reach is how the API server gets here, but for the path and the certificate.
	reach func(path string) admissionregistrationv1.WebhookClientConfig
	// gate knows who may call.
	gate *access.Gate
}

// newWebhookServer makes a server of a handler. onPublish is called after its clientConfig has changed.
func (o *Operator) newWebhookServer(ctx context.Context, handler http.Handler, onPublish func()) (*webhookServer, error) {
	options := o.options.Webhooks
	s := &webhookServer{listener: options.Listener, delay: options.ShutdownDelay}
	if s.listener == nil {
		var err error
		if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("listen for webhook calls: %w", err)
		}
	}
	var err error
	if s.host, err = s.setReach(options, o.options.SystemNamespace); err != nil {
		return nil, err
	}
	key := access.NewKey()
	if options.SecretName != "" {
		if key, err = access.SharedKey(ctx, o.client.CoreV1().Secrets(o.options.SystemNamespace), options.SecretName+naming.CallersSuffix); err != nil {
			return nil, err
		}
		s.certificates = &certs.Keeper{
			Client: o.client, Namespace: o.options.SystemNamespace, Name: options.SecretName, DNSNames: []string{s.host}, Renews: options.KeepSecret,
			Published: func(ctx context.Context) ([][]byte, error) { return webhookconfig.Authorities(ctx, o.client) },
			OnPublish: onPublish, Log: o.options.Log.WithName("certificate"),
		}
	} else if s.certificates, err = newSelfSigned(s.host); err != nil {
		return nil, err
	}
	s.gate = access.NewGate(key, options.ClientCertificates)
	s.server = &http.Server{
		Handler:           s.gate.Guard(handler),
		TLSConfig:         &tls.Config{GetCertificate: s.certificates.GetCertificate, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(logWriter{o.options.Log.WithName("webhooks")}, "", 0),
	}
	options.ClientCertificates.Configure(s.server.TLSConfig)
	return s, nil
}

// setReach finds out how the API server gets here, and by which name or address.
func (s *webhookServer) setReach(options Webhooks, namespace string) (host string, err error) {
	if service := options.Service; service != nil {
		s.reach = func(path string) admissionregistrationv1.WebhookClientConfig {
			return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
				Namespace: namespace, Name: service.Name, Port: &service.Port, Path: &path,
			}}
		}
		return service.Name + "." + namespace + ".svc", nil
	}
	base := options.URL
	if base == "" {
		base = "https://" + s.listener.Addr().String()
	}
	parsed, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("the URL of the webhooks: %w", err)
	}
	s.reach = func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: new(parsed.JoinPath(path).String())}
	}
	return parsed.Hostname(), nil
}

// clientConfig tells the API server how to reach a path.
func (s *webhookServer) clientConfig(path string) admissionregistrationv1.WebhookClientConfig {
	config := s.reach(s.gate.PublishedPath(path))
	config.CABundle = s.certificates.Bundle()
	return config
}

// run serves until ctx ends and a while longer, and then finishes what it is answering. Once working
// has ended nothing can be answered.
func (s *webhookServer) run(ctx, working context.Context) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-working.Done():
		case <-ctx.Done():
			select {
			case <-working.Done():
			case <-time.After(s.delay):
			}
		}
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

// selfSigned is a certificate of the process, which is made anew at each start. The API server learns
// it from the webhook configuration.
type selfSigned struct {
	pair   tls.Certificate
	bundle []byte
}

func newSelfSigned(host string) (*selfSigned, error) {
	var addresses []net.IP
	if ip := net.ParseIP(host); ip != nil {
		addresses = []net.IP{ip}
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey(host, addresses, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the webhooks: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("load the certificate of the webhooks: %w", err)
	}
	return &selfSigned{pair, cert}, nil
}

func (s *selfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &s.pair, nil
}

func (s *selfSigned) Bundle() []byte { return s.bundle }

func (s *selfSigned) IsCheckedBy(authorities []byte) bool {
	return bytes.Contains(authorities, s.bundle)
}

func (s *selfSigned) Ready() error { return nil }

func (s *selfSigned) Run(context.Context) error { return nil }

// logWriter makes a logger take the lines of another.
type logWriter struct{ logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.Info(string(line))
	return len(line), nil
}
