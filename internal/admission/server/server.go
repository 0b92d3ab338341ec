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
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bursar/bursar/internal/admission/access"
	"github.com/bursar/bursar/internal/admission/certs"
	"github.com/bursar/bursar/internal/kube/inprocess"
	"github.com/bursar/bursar/internal/naming"
)

// shutdownTime bounds how long open reviews may take once the operator stops.
const shutdownTime = 5 * time.Second

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
	listener     net.Listener
	server       *http.Server
	inProcess    *inprocess.Server
	delay        time.Duration
	// hostPort is the API server's target, as in the URLs of its requests.
	hostPort string
	// endpoint returns the client configuration of a path, without the certificate.
	endpoint  func(path string) admissionregistrationv1.WebhookClientConfig
	published published
}

// New makes a server for a handler. It listens at once, and serves once it runs.
func New(ctx context.Context, options Options, dependencies Dependencies, handler http.Handler) (*Server, error) {
	s := &Server{dependencies: dependencies, listener: options.Listener, delay: options.ShutdownDelay, inProcess: options.InProcess}
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
	s.Authenticator = access.NewAuthenticator(key, options.ClientCertificates)
	s.server = &http.Server{
		Handler:           s.Authenticator.Guard(handler),
		TLSConfig:         &tls.Config{GetCertificate: s.Certificates.GetCertificate, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(logWriter{dependencies.Log.WithName("webhooks")}, "", 0),
	}
	options.ClientCertificates.Configure(s.server.TLSConfig)
	return s, nil
}

// setEndpoint sets the address for the API server, and returns its name or IP.
func (s *Server) setEndpoint(options Options, namespace string) (host string, err error) {
	if service := options.Service; service != nil {
		host = service.Name + "." + namespace + ".svc"
		s.hostPort = net.JoinHostPort(host, strconv.Itoa(int(service.Port)))
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
	s.hostPort = parsed.Host
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

// Serve serves until ctx ends and the shutdown delay has passed, and then finishes open requests. Once working has
// ended, it can no longer answer requests, and stops at once.
func (s *Server) Serve(ctx, working context.Context) error {
	s.inProcess.Handle(s.hostPort, s.server.Handler, s.dependencies.Log.WithName("webhooks"))
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
		var open sync.WaitGroup
		open.Go(func() { s.inProcess.Shutdown(ctx) })
		_ = s.server.Shutdown(ctx) // the remaining open requests then fail
		open.Wait()
	}()
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

// logWriter forwards the lines of another logger.
type logWriter struct{ logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.Info(string(line))
	return len(line), nil
}
