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
	// renewBefore is the remaining lifetime of a certificate or an authority at its replacement.
	renewBefore = 90 * 24 * time.Hour
	// skew is how far the clock of a verifier may be behind.
	skew = time.Hour

	// authorityKey is the entry with the key of the authority in a Secret of Bursar's own. The other entries are those
	// of every Secret of type kubernetes.io/tls, and ca.crt as cert-manager writes it.
	authorityKey = "ca.key"
)

// pair is a certificate with its key, and its authorities.
type pair struct {
	certificate *tls.Certificate
	// bundle are the authorities in PEM. The issuer of the certificate comes first.
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

// equal reports whether both are the same.
func (p *pair) equal(other *pair) bool {
	return slices.EqualFunc(p.certificate.Certificate, other.certificate.Certificate, bytes.Equal) && bytes.Equal(p.bundle, other.bundle)
}

// isValid reports whether the certificate is valid at a time.
func (p *pair) isValid(at time.Time) bool {
	leaf := p.certificate.Leaf
	return !at.Before(leaf.NotBefore) && !at.After(leaf.NotAfter)
}

// verifiedBy reports whether the authorities of a bundle verify the certificate, served with its intermediates.
func (p *pair) verifiedBy(bundle []byte, at time.Time) bool {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, content := range p.certificate.Certificate[1:] {
		certificate, err := x509.ParseCertificate(content)
		if err != nil {
			return false // then the API server rejects the whole chain
		}
		between.AddCert(certificate)
	}
	_, err := p.certificate.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err == nil
}

// union returns the authorities of both bundles, each once, without expired ones.
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

// renewed returns the new content of a Secret of Bursar's own, or nil if the content needs no change.
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

// authorityOf reads the signing authority: the first of a bundle, with its key.
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
		return nil, errors.New("the authority's key does not match its certificate")
	}
	return &rotator.KeyPairArtifacts{Cert: certificate, Key: private, CertPEM: pem.EncodeToMemory(block), KeyPEM: key}, nil
}
