package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	certutil "k8s.io/client-go/util/cert"
)

const (
	authorityLifetime   = 10 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate, or an authority, is replaced.
	renewBefore = 90 * 24 * time.Hour
	// skew is how far the clocks of those who check a certificate may be behind.
	skew = time.Hour

	// authorityKey is where a Secret of Bursar's own has the key of its authority. The other entries are
	// as in every Secret of type kubernetes.io/tls, and ca.crt as cert-manager writes it.
	authorityKey = "ca.key"
)

// pair is a certificate with its key, and the authorities that it is to be checked by.
type pair struct {
	certificate *tls.Certificate
	// bundle are the authorities in PEM, that of the certificate first.
	bundle []byte
}

// pairOf reads a Secret.
func pairOf(secret *corev1.Secret) (*pair, error) {
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("the Secret %s has no certificate with its key in %s and %s: %w", secret.Name, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	bundle := secret.Data[corev1.ServiceAccountRootCAKey]
	if _, err := certutil.ParseCertsPEM(bundle); err != nil {
		return nil, fmt.Errorf("the Secret %s has no authority in %s: %w", secret.Name, corev1.ServiceAccountRootCAKey, err)
	}
	return &pair{&certificate, bundle}, nil
}

// equal tells whether both are the same.
func (p *pair) equal(other *pair) bool {
	return slices.EqualFunc(p.certificate.Certificate, other.certificate.Certificate, bytes.Equal) && bytes.Equal(p.bundle, other.bundle)
}

// isValid tells whether the certificate is in force at a time.
func (p *pair) isValid(at time.Time) bool {
	leaf := p.certificate.Leaf
	return !at.Before(leaf.NotBefore) && !at.After(leaf.NotAfter)
}

// verifiedBy tells whether the certificate, served with those between it and an authority, can be checked by
// the authorities of a bundle.
func (p *pair) verifiedBy(bundle []byte, at time.Time) bool {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, content := range p.certificate.Certificate[1:] {
		certificate, err := x509.ParseCertificate(content)
		if err != nil {
			return false // the API server refuses all of what is served then
		}
		between.AddCert(certificate)
	}
	_, err := p.certificate.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err == nil
}

// union returns the authorities of both bundles, each once, but for those that have ended.
func union(first, second []byte, at time.Time) []byte {
	var all bytes.Buffer
	seen := map[string]bool{}
	for _, bundle := range [][]byte{first, second} {
		authorities, err := certutil.ParseCertsPEM(bundle)
		if err != nil {
			continue // there are none
		}
		for _, authority := range authorities {
			if seen[string(authority.Raw)] || at.After(authority.NotAfter) {
				continue
			}
			seen[string(authority.Raw)] = true
			all.Write(pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: authority.Raw}))
		}
	}
	return all.Bytes()
}

// renewed returns what a Secret of Bursar's own should hold at a time, or nil if that is what it holds.
func (m *Manager) renewed(data map[string][]byte, at time.Time) (map[string][]byte, error) {
	issuer := m.issuer()
	soon := at.Add(renewBefore)
	bundle, key := data[corev1.ServiceAccountRootCAKey], data[authorityKey]
	authority, err := authorityOf(bundle, key)
	isKept := err == nil && authority.Cert.NotAfter.After(soon)
	if isKept {
		if ok, _ := rotator.ValidCert(bundle, data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], m.DNSNames[0], issuer.ExtKeyUsages, soon); ok {
			return nil, nil
		}
	} else {
		if authority, err = issuer.CreateCACert(at.Add(-skew), at.Add(authorityLifetime)); err != nil {
			return nil, fmt.Errorf("make a certificate authority for the webhooks: %w", err)
		}
	}
	certificate, certificateKey, err := issuer.CreateCertPEM(authority, at.Add(-skew), at.Add(certificateLifetime))
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the webhooks: %w", err)
	}
	return map[string][]byte{
		corev1.ServiceAccountRootCAKey: union(authority.CertPEM, bundle, at), authorityKey: authority.KeyPEM,
		corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: certificateKey,
	}, nil
}

func (m *Manager) issuer() *rotator.CertRotator {
	return &rotator.CertRotator{
		CAName: "bursar-webhooks", CAOrganization: "bursar", DNSName: m.DNSNames[0], ExtraDNSNames: m.DNSNames[1:],
		ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

// authorityOf reads the authority that signs: the first of a bundle, which the key is of.
func authorityOf(bundle, key []byte) (*rotator.KeyPairArtifacts, error) {
	block, _ := pem.Decode(bundle)
	keyBlock, _ := pem.Decode(key)
	if block == nil || keyBlock == nil {
		return nil, errors.New("there is no authority")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	private, err := x509.ParsePKCS1PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the authority's key: %w", err)
	}
	if !private.PublicKey.Equal(certificate.PublicKey) {
		return nil, errors.New("the authority's key is of another")
	}
	return &rotator.KeyPairArtifacts{Cert: certificate, Key: private, CertPEM: pem.EncodeToMemory(block), KeyPEM: key}, nil
}
