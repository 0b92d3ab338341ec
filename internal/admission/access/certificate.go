package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
)

// ClientCertificates are those that the API server may show. The zero value accepts none.
type ClientCertificates struct {
	// Authorities sign them.
	Authorities *x509.CertPool
	// Names are the common names that are accepted.
	Names []string
}

// Configure has a TLS server ask for client certificates. It goes on serving callers that show none.
func (c ClientCertificates) Configure(config *tls.Config) {
	if c.Authorities != nil {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, c.Authorities
	}
}

// accept reports whether a connection was opened with one of the certificates.
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
