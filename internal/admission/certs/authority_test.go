package certs

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	certutil "k8s.io/client-go/util/cert"
)

// TestIntermediate has a certificate of an intermediate authority. The Secret has the certificate and this authority
// in tls.crt. Its ca.crt has only the signer of that authority, for publication.
func TestIntermediate(t *testing.T) {
	now := time.Now()
	root, other, intermediate := newAuthority(t, "root"), newAuthority(t, "root"), newAuthority(t, "intermediate")
	signed, err := x509.CreateCertificate(rand.Reader, intermediate.Cert, root.Cert, intermediate.Key.Public(), root.Key)
	if err != nil {
		t.Fatal(err)
	}
	issuer := (&Manager{DNSNames: []string{service}}).issuer()
	leaf, key, err := issuer.CreateCertPEM(intermediate, now.Add(-skew), now.Add(certificateLifetime))
	if err != nil {
		t.Fatal(err)
	}
	followedBy := func(content []byte) []byte {
		return slices.Concat(leaf, pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: content}))
	}
	for name, tt := range map[string]struct {
		reason         string
		served, bundle []byte
		want           bool
	}{
		"both":              {"the API server is shown what leads to the authority", followedBy(signed), root.CertPEM, true},
		"certificate alone": {"nothing leads to the authority", leaf, root.CertPEM, false},
		"another authority": {"what is served does not vouch for itself", followedBy(signed), other.CertPEM, false},
		"unreadable":        {"the API server gives up", followedBy([]byte("nothing")), intermediate.CertPEM, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := pairOf(&corev1.Secret{Data: map[string][]byte{
				corev1.TLSCertKey: tt.served, corev1.TLSPrivateKeyKey: key, corev1.ServiceAccountRootCAKey: root.CertPEM,
			}})
			if err != nil {
				t.Fatal(err)
			}
			if got := (&Manager{served: p}).VerifiedBy(tt.bundle); got != tt.want {
				t.Errorf("%s: got %t, want %t", tt.reason, got, tt.want)
			}
		})
	}
}

func newAuthority(t *testing.T, name string) *rotator.KeyPairArtifacts {
	t.Helper()
	now := time.Now()
	authority, err := (&rotator.CertRotator{CAName: name}).CreateCACert(now.Add(-skew), now.Add(authorityLifetime))
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

// A certificate with another chain is another certificate, so a complete chain replaces an incomplete one.
func TestAnotherChain(t *testing.T) {
	of := func(chain ...string) *pair {
		p := &pair{certificate: &tls.Certificate{}, bundle: []byte("authority")}
		for _, certificate := range chain {
			p.certificate.Certificate = append(p.certificate.Certificate, []byte(certificate))
		}
		return p
	}
	if of("leaf").equal(of("leaf", "between")) || !of("leaf", "between").equal(of("leaf", "between")) {
		t.Error("what is served is not told apart by the chain")
	}
}
