package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// requirePeers makes a TLS server accept only clients with the certificate of a replica.
func (s *Server) requirePeers(config *tls.Config) {
	config.ClientAuth, config.VerifyConnection = tls.RequireAnyClientCert, s.verifyPeer
}

// verifyPeer returns an error unless the client of a connection has a certificate that a replica would serve.
func (s *Server) verifyPeer(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("only other replicas of Bursar may connect: the client has no certificate")
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(s.Certificates.Bundle())
	for _, certificate := range state.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		DNSName: s.Host, Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("only other replicas of Bursar may connect: %w", err)
	}
	return nil
}
