package apiserver

import (
	"crypto/rand"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"

	"github.com/bursar/bursar/internal/standalone/datadir"
)

// OperatorUser is the name of the operator's user on the API server.
const OperatorUser = "system:bursar"

// operatorUser is the operator's credential: a token, created again at each start. The API server caches verified
// tokens, but would verify a client certificate with every request.
type operatorUser struct {
	token string
	// tokenFile is the token file of the API server.
	tokenFile string
}

// newOperatorUser writes the token file.
func newOperatorUser(tokenFile string) (*operatorUser, error) {
	u := &operatorUser{token: rand.Text(), tokenFile: tokenFile}
	line := fmt.Sprintf("%s,%s,%s,system:masters\n", u.token, OperatorUser, OperatorUser)
	if err := datadir.WriteFile(tokenFile, []byte(line)); err != nil {
		return nil, fmt.Errorf("write %s: %w", tokenFile, err)
	}
	return u, nil
}

// config returns the operator's configuration for a server with a certificate of p. It is not throttled, because users
// wait for the operator's writes.
func (u *operatorUser) config(server string, p *pki) *rest.Config {
	return &rest.Config{
		Host:            server,
		BearerToken:     u.token,
		UserAgent:       "bursar",
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: pkiutil.EncodeCertPEM(p.ca)},
	}
}
