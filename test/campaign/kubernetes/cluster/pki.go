package cluster

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

// pki is the certificate authority of a cluster with its certificates, in a folder.
type pki struct {
	dir string
	ca  *x509.Certificate
	key crypto.Signer

	mu          sync.Mutex
	kubeconfigs map[string]string // paths by server, user and groups
}

func newPKI(dir string) (*pki, error) {
	p := &pki{dir: dir, kubeconfigs: map[string]string{}}
	var err error
	if p.ca, p.key, err = pkiutil.NewCertificateAuthority(certificate("kubernetes", nil)); err != nil {
		return nil, err
	}
	if err := pkiutil.WriteCertAndKey(dir, "ca", p.ca, p.key); err != nil {
		return nil, err
	}
	key, err := pkiutil.GeneratePrivateKey(kubeadmapi.EncryptionAlgorithmECDSAP256)
	if err != nil {
		return nil, err
	}
	return p, pkiutil.WriteKey(dir, "service-accounts", key)
}

func certificate(name string, groups []string, usages ...x509.ExtKeyUsage) *pkiutil.CertConfig {
	return &pkiutil.CertConfig{
		Config:              certutil.Config{CommonName: name, Organization: groups, Usages: usages},
		NotAfter:            time.Now().Add(24 * time.Hour),
		EncryptionAlgorithm: kubeadmapi.EncryptionAlgorithmECDSAP256,
	}
}

func (p *pki) authority() string {
	file, _ := pkiutil.PathsForCertAndKey(p.dir, "ca")
	return file
}

func (p *pki) serviceAccountKey() string {
	_, file := pkiutil.PathsForCertAndKey(p.dir, "service-accounts")
	return file
}

// signServer returns the files of a certificate for a server on the loopback interface.
func (p *pki) signServer() (certFile, keyFile string, err error) {
	config := certificate("localhost", nil, x509.ExtKeyUsageServerAuth)
	config.AltNames = certutil.AltNames{DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, key, err := pkiutil.NewCertAndKey(p.ca, p.key, config)
	if err != nil {
		return "", "", err
	}
	name := fmt.Sprint("server-", cert.SerialNumber)
	certFile, keyFile = pkiutil.PathsForCertAndKey(p.dir, name)
	return certFile, keyFile, pkiutil.WriteCertAndKey(p.dir, name, cert, key)
}

// frontProxy is the user behind the requests that API servers forward to aggregated ones.
const frontProxy = "front-proxy-client"

// signFrontProxy returns the files of the certificate of frontProxy.
func (p *pki) signFrontProxy() (certFile, keyFile string, err error) {
	cert, key, err := pkiutil.NewCertAndKey(p.ca, p.key, certificate(frontProxy, nil, x509.ExtKeyUsageClientAuth))
	if err != nil {
		return "", "", err
	}
	certFile, keyFile = pkiutil.PathsForCertAndKey(p.dir, frontProxy)
	return certFile, keyFile, pkiutil.WriteCertAndKey(p.dir, frontProxy, cert, key)
}

// kubeconfig returns the path of a kubeconfig of a server for a user in some groups.
func (p *pki) kubeconfig(server, user string, groups ...string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := strings.Join(append([]string{server, user}, groups...), " ")
	if path, ok := p.kubeconfigs[id]; ok {
		return path, nil
	}
	cert, key, err := pkiutil.NewCertAndKey(p.ca, p.key, certificate(user, groups, x509.ExtKeyUsageClientAuth))
	if err != nil {
		return "", err
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return "", err
	}
	path, err := p.writeKubeconfig(server, clientcmdapi.AuthInfo{ClientCertificateData: pkiutil.EncodeCertPEM(cert), ClientKeyData: encoded})
	p.kubeconfigs[id] = path
	return path, err
}

// tokenKubeconfig returns the path of a kubeconfig of a server for the owner of a token.
func (p *pki) tokenKubeconfig(server, token string) (string, error) {
	return p.writeKubeconfig(server, clientcmdapi.AuthInfo{Token: token})
}

func (p *pki) writeKubeconfig(server string, user clientcmdapi.AuthInfo) (string, error) {
	file, err := os.CreateTemp(p.dir, "*.kubeconfig")
	if err != nil {
		return "", err
	}
	return file.Name(), errors.Join(file.Close(), clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"cluster": {Server: server, CertificateAuthorityData: pkiutil.EncodeCertPEM(p.ca)}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"user": &user},
		Contexts:       map[string]*clientcmdapi.Context{"cluster": {Cluster: "cluster", AuthInfo: "user"}},
		CurrentContext: "cluster",
	}, file.Name()))
}
