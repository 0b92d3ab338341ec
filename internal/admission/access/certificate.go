package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
)

// ClientCertificates are the accepted client certificates of the API server. The zero value accepts none.
type ClientCertificates struct {
	// Authorities are the issuers of the certificates.
	Authorities *x509.CertPool
	// Names are the accepted common names.
	Names []string
}

// Configure makes a TLS server request client certificates. The server still serves callers without one.
func (c ClientCertificates) Configure(config *tls.Config) {
	if c.Authorities != nil {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, c.Authorities
	}
}

// accept reports whether a client opened a connection with one of the certificates.
func (c ClientCertificates) accept(state *tls.ConnectionState) bool {
	if c.Authorities == nil || state == nil || len(state.VerifiedChains) == 0 {
		return false
	}
	return slices.Contains(c.Names, state.VerifiedChains[0][0].Subject.CommonName)
}

// ParseAuthorities reads the authorities of client certificates, in PEM.
func ParseAuthorities(content []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, errors.New("it holds no certificate in PEM")
	}
	return pool, nil
}
