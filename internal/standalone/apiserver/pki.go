package apiserver

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

const (
	certificateLifetime = 365 * 24 * time.Hour
	authorityLifetime   = 10 * certificateLifetime
)

// pki is the control plane's own certificate authority and its certificates. The CA and the service account key are
// kept; everything else is signed again at each start.
type pki struct {
	dir string
	ca  *x509.Certificate
	key crypto.Signer
}

// openPKI loads the CA from dir, or creates it.
func openPKI(dir string) (*pki, error) {
	p := &pki{dir: dir}
	var err error
	if pkiutil.CertOrKeyExist(dir, "ca") {
		p.ca, p.key, err = pkiutil.TryLoadCertAndKeyFromDisk(dir, "ca")
	} else if p.ca, p.key, err = pkiutil.NewCertificateAuthority(certificate("bursar", nil, authorityLifetime)); err == nil {
		err = pkiutil.WriteCertAndKey(dir, "ca", p.ca, p.key)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate authority in %s: %w", dir, err)
	}
	return p, p.ensureServiceAccountKey()
}

func certificate(name string, groups []string, lifetime time.Duration, usages ...x509.ExtKeyUsage) *pkiutil.CertConfig {
	return &pkiutil.CertConfig{
		Config:              certutil.Config{CommonName: name, Organization: groups, Usages: usages},
		NotAfter:            time.Now().Add(lifetime),
		EncryptionAlgorithm: kubeadmapi.EncryptionAlgorithmECDSAP256,
	}
}

func (p *pki) ensureServiceAccountKey() error {
	if pkiutil.CertOrKeyExist(p.dir, "service-accounts") {
		return nil
	}
	key, err := pkiutil.GeneratePrivateKey(kubeadmapi.EncryptionAlgorithmECDSAP256)
	if err == nil {
		err = pkiutil.WriteKey(p.dir, "service-accounts", key)
	}
	if err != nil {
		return fmt.Errorf("service account key in %s: %w", p.dir, err)
	}
	return nil
}

// signServer signs a certificate for a server at these hosts and returns its files.
func (p *pki) signServer(name string, hosts ...string) (certFile, keyFile string, err error) {
	config := certificate(name, nil, certificateLifetime, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			config.AltNames.IPs = append(config.AltNames.IPs, ip)
		} else {
			config.AltNames.DNSNames = append(config.AltNames.DNSNames, host)
		}
	}
	cert, key, err := pkiutil.NewCertAndKey(p.ca, p.key, config)
	if err == nil {
		err = pkiutil.WriteCertAndKey(p.dir, name, cert, key)
	}
	if err != nil {
		return "", "", fmt.Errorf("certificate of %s: %w", name, err)
	}
	certFile, keyFile = pkiutil.PathsForCertAndKey(p.dir, name)
	return certFile, keyFile, nil
}

// signUser signs a client certificate for a user and returns a configuration with it.
func (p *pki) signUser(server, name string, groups ...string) (*rest.Config, error) {
	cert, key, err := pkiutil.NewCertAndKey(p.ca, p.key, certificate(name, groups, certificateLifetime, x509.ExtKeyUsageClientAuth))
	if err != nil {
		return nil, fmt.Errorf("certificate of user %s: %w", name, err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("key of user %s: %w", name, err)
	}
	return &rest.Config{
		Host: server,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   pkiutil.EncodeCertPEM(p.ca),
			CertData: pkiutil.EncodeCertPEM(cert),
			KeyData:  encoded,
		},
	}, nil
}

func (p *pki) caFile() string {
	file, _ := pkiutil.PathsForCertAndKey(p.dir, "ca")
	return file
}

func (p *pki) caKeyFile() string {
	_, file := pkiutil.PathsForCertAndKey(p.dir, "ca")
	return file
}

func (p *pki) serviceAccountKeyFile() string {
	_, file := pkiutil.PathsForCertAndKey(p.dir, "service-accounts")
	return file
}
