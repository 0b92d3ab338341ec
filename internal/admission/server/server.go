// Package server serves the webhooks to API servers, and reviews to other replicas.
package server

import (
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
	"k8s.io/client-go/kubernetes"

	"github.com/bursar/bursar/internal/admission/access"
	"github.com/bursar/bursar/internal/admission/certs"
	"github.com/bursar/bursar/internal/naming"
)

// shutdownTime is how long reviews that are being answered may take once the operator stops.
const shutdownTime = 5 * time.Second

// Certificates are what a server serves by.
type Certificates interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Bundle returns the authorities that the API server is to check it by, in PEM.
	Bundle() []byte
	// VerifiedBy tells whether one of some authorities, in PEM, is that of the certificate that is served.
	VerifiedBy(authorities []byte) bool
	// Ready tells why there is nothing to serve by, or returns nil.
	Ready() error
	// OnPublish has f called after Bundle has changed. It is called once, before Run.
	OnPublish(f func())
	// Run keeps the certificate until ctx ends.
	Run(ctx context.Context) error
}

// Dependencies are what a server uses.
type Dependencies struct {
	// Client reaches the Secrets in Namespace, the system namespace.
	Client    kubernetes.Interface
	Namespace string
	// Published are the authorities by which API servers are told to check the webhooks.
	Published certs.Published
	Log       logr.Logger
}

// Server serves a handler to those who prove that they may call.
type Server struct {
	// Certificates are what it serves by. Whoever runs the server runs them.
	Certificates Certificates
	// Host is the name or address that the certificate is for.
	Host string
	// Gate knows who may call.
	Gate *access.Gate

	dependencies Dependencies
	listener     net.Listener
	server       *http.Server
	delay        time.Duration
	// reach is how the API server gets here, but for the path and the certificate.
	endpoint  func(path string) admissionregistrationv1.WebhookClientConfig
	published published
}

// New makes a server of a handler. It listens at once, and serves once it runs.
func New(ctx context.Context, options Options, dependencies Dependencies, handler http.Handler) (*Server, error) {
	s := &Server{dependencies: dependencies, listener: options.Listener, delay: options.ShutdownDelay}
	if s.listener == nil {
		var err error
		if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("listen for webhook calls: %w", err)
		}
	}
	var err error
	if s.Host, err = s.setEndpoint(options, dependencies.Namespace); err != nil {
		return nil, err
	}
	key := access.NewKey()
	if options.SecretName != "" {
		if key, err = access.SharedKey(ctx, dependencies.Client.CoreV1().Secrets(dependencies.Namespace), options.SecretName+naming.CallersSuffix); err != nil {
			return nil, err
		}
		s.Certificates = &certs.Manager{
			Client: dependencies.Client, Namespace: dependencies.Namespace, Name: options.SecretName, DNSNames: []string{s.Host}, Renews: options.ManageSecret,
			Published: dependencies.Published, Log: dependencies.Log.WithName("certificate"),
		}
	} else if s.Certificates, err = newSelfSigned(s.Host); err != nil {
		return nil, err
	}
	s.Gate = access.NewGate(key, options.ClientCertificates)
	s.server = &http.Server{
		Handler:           s.Gate.Guard(handler),
		TLSConfig:         &tls.Config{GetCertificate: s.Certificates.GetCertificate, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(logWriter{dependencies.Log.WithName("webhooks")}, "", 0),
	}
	options.ClientCertificates.Configure(s.server.TLSConfig)
	return s, nil
}

// setEndpoint finds out how the API server gets here, and by which name or address.
func (s *Server) setEndpoint(options Options, namespace string) (host string, err error) {
	if service := options.Service; service != nil {
		s.endpoint = func(path string) admissionregistrationv1.WebhookClientConfig {
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
	s.endpoint = func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: new(parsed.JoinPath(path).String())}
	}
	return parsed.Hostname(), nil
}

// ClientConfig tells the API server how to reach a path.
func (s *Server) ClientConfig(path string) admissionregistrationv1.WebhookClientConfig {
	config := s.endpoint(s.Gate.PublishedPath(path))
	config.CABundle = s.Certificates.Bundle()
	return config
}

// Serve serves until ctx ends and a while longer, and then finishes what it is answering. Once working
// has ended nothing can be answered.
func (s *Server) Serve(ctx, working context.Context) error {
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

// logWriter makes a logger take the lines of another.
type logWriter struct{ logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.Info(string(line))
	return len(line), nil
}
