package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	certutil "k8s.io/client-go/util/cert"
)

// noCertificate is for a server without a listener.
type noCertificate struct{}

func (noCertificate) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return nil, errors.New("there is no listener to serve a certificate")
}

func (noCertificate) Bundle() []byte { return nil }

func (noCertificate) VerifiedBy([]byte) bool { return true }

func (noCertificate) Ready() error { return nil }

func (noCertificate) OnPublish(func()) {}

func (noCertificate) Run(context.Context) error { return nil }

// selfSigned is a self-signed certificate. Each start of the process makes a new one. The API server trusts it through
// the webhook configuration.
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

func (s *selfSigned) VerifiedBy(authorities []byte) bool {
	return bytes.Contains(authorities, s.bundle)
}

func (s *selfSigned) Ready() error { return nil }

// OnPublish does nothing, because the certificate stays the same.
func (s *selfSigned) OnPublish(func()) {}

func (s *selfSigned) Run(context.Context) error { return nil }
