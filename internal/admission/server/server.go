// Package server serves the webhooks to API servers, and reviews to other replicas, over TLS. It authenticates every
// caller with package access. Package operator composes it; packages cli and standalone set its options.
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
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bursar/bursar/internal/admission/access"
	"github.com/bursar/bursar/internal/admission/certs"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/kube/inprocess"
	"github.com/bursar/bursar/internal/naming"
)

const (
	// shutdownTime bounds how long open reviews may take once the operator stops.
	shutdownTime = 5 * time.Second
	// headerTime bounds the TLS handshake, and then the arrival of a request's header.
	headerTime = 10 * time.Second
	// idleTime is how long a connection may stay without a request.
	idleTime = 2 * time.Minute
	// headerBytesMax bounds the header of a request. That of an API server takes less than a KiB.
	headerBytesMax = 16 << 10
)

// Certificates is the source of the serving certificate.
type Certificates interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Bundle returns the authorities of the certificate, in PEM.
	Bundle() []byte
	// VerifiedBy reports whether one of the authorities, in PEM, issued the served certificate.
	VerifiedBy(authorities []byte) bool
	// Ready returns nil if there is a certificate to serve, or the reason why not.
	Ready() error
	// OnPublish registers f to be called after a change of Bundle. Call it once, before Run.
	OnPublish(f func())
	// Run maintains the certificate until ctx ends.
	Run(ctx context.Context) error
}

// Dependencies are the dependencies of a server.
type Dependencies struct {
	// Client reads and writes the Secrets in Namespace, the system namespace.
	Client    kubernetes.Interface
	Namespace string
	// Published are the authorities in the published webhook configurations.
	Published certs.Published
	Log       logr.Logger
}

// Server serves a handler to authenticated callers.
type Server struct {
	// Certificates is the source of the serving certificate. The owner of the server runs it.
	Certificates Certificates
	// Host is the name or address in the certificate.
	Host string
	// Authenticator authenticates the callers.
	Authenticator *access.Authenticator

	dependencies Dependencies
	// handler answers authenticated requests.
	handler http.Handler
	// listener and server are nil if all callers are in this process.
	listener  net.Listener
	server    *http.Server
	inProcess *inprocess.Server
	delay     time.Duration
	// endpoint returns the client configuration of a path, without the certificate.
	endpoint  func(path string) admissionregistrationv1.WebhookClientConfig
	published published
}

// New makes a server for a handler. It listens at once, and serves once it runs.
func New(ctx context.Context, options Options, dependencies Dependencies, handler http.Handler) (*Server, error) {
	s := &Server{
		dependencies: dependencies, listener: options.Listener, delay: options.ShutdownDelay, inProcess: options.InProcess,
		handler: review.Within(handler),
	}
	if s.listener == nil && s.inProcess == nil {
		var err error
		if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("listen for webhook calls: %w", err)
		}
	}
	var err error
	if s.Host, err = s.setEndpoint(options, dependencies.Namespace); err != nil {
		return nil, err
	}
	key, err := s.setCertificates(ctx, options)
	if err != nil {
		return nil, err
	}
	s.Authenticator = access.NewAuthenticator(key, options.ClientCertificates)
	if s.inProcess != nil {
		s.Authenticator = access.ForPeers(key)
	}
	if s.listener != nil {
		s.server = s.newHTTPServer(options)
	}
	return s, nil
}

// setCertificates sets the source of the serving certificate, and returns the key to authenticate callers.
func (s *Server) setCertificates(ctx context.Context, options Options) (key access.Key, err error) {
	d := s.dependencies
	switch {
	case s.listener == nil:
		s.Certificates = noCertificate{}
	case options.SecretName == "":
		s.Certificates, err = newSelfSigned(s.Host)
	default:
		s.Certificates = &certs.Manager{
			Client: d.Client, Namespace: d.Namespace, Name: options.SecretName, DNSNames: []string{s.Host}, Renews: options.ManageSecret,
			Published: d.Published, Log: d.Log.WithName("certificate"),
		}
		return access.SharedKey(ctx, d.Client.CoreV1().Secrets(d.Namespace), options.SecretName+naming.CallersSuffix)
	}
	return access.NewKey(), err
}

// newHTTPServer returns the server for the listener. A stranger costs it little: a connection has to authenticate
// itself soon, and a body has to arrive soon.
func (s *Server) newHTTPServer(options Options) *http.Server {
	server := &http.Server{
		TLSConfig:         &tls.Config{GetCertificate: s.Certificates.GetCertificate, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytesMax,
		ErrorLog: log.New(logWriter{s.dependencies.Log.WithName("webhooks")}, "", 0),
	}
	newcomers := &newcomers{}
	newcomers.follow(server)
	server.Handler = s.Authenticator.Guard(newcomers.admitted(arriveSoon(s.handler)))
	if s.inProcess != nil {
		s.requirePeers(server.TLSConfig)
	} else {
		options.ClientCertificates.Configure(server.TLSConfig)
	}
	return server
}

// setEndpoint sets the address for the API server, and returns its name or IP.
func (s *Server) setEndpoint(options Options, namespace string) (host string, err error) {
	if service := options.Service; service != nil {
		host = service.Name + "." + namespace + ".svc"
		s.endpoint = func(path string) admissionregistrationv1.WebhookClientConfig {
			return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
				Namespace: namespace, Name: service.Name, Port: &service.Port, Path: &path,
			}}
		}
		return host, nil
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

// ClientConfig returns the API server's configuration for calls of a path.
func (s *Server) ClientConfig(path string) admissionregistrationv1.WebhookClientConfig {
	config := s.endpoint(s.Authenticator.PublishedPath(path))
	config.CABundle = s.Certificates.Bundle()
	return config
}

// Observe learns of a path in the stored webhook configurations.
func (s *Server) Observe(path string) { s.Authenticator.Observe(path) }

// Serve serves until ctx ends and the shutdown delay has passed, and then finishes open requests. Once working has
// ended, it can no longer answer requests, and stops at once.
func (s *Server) Serve(ctx, working context.Context) error {
	s.inProcess.Handle(s.handler, s.dependencies.Log.WithName("webhooks"))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.shutDown(ctx, working)
	}()
	if s.server == nil {
		<-stopped
		return nil
	}

	err := s.server.ServeTLS(s.listener, "", "")
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}

	ended, cancel := context.WithTimeout(working, shutdownTime)
	defer cancel()
	s.inProcess.Shutdown(ended)
	return fmt.Errorf("serve the webhooks: %w", err)
}

// shutDown waits until ctx ends and the shutdown delay has passed, or until working ends. Then it finishes the open
// requests.
func (s *Server) shutDown(ctx, working context.Context) {
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
	var open sync.WaitGroup
	open.Go(func() { s.inProcess.Shutdown(ctx) })
	if s.server != nil {
		_ = s.server.Shutdown(ctx) // the remaining open requests then fail
	}
	open.Wait()
}

// logWriter forwards the lines of another logger.
type logWriter struct{ logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.Info(string(line))
	return len(line), nil
}
