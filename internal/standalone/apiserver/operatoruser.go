package apiserver

import (
	"crypto/rand"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

// OperatorUser is the name of the user that the operator talks to the API server as.
const OperatorUser = "system:bursar"

// operatorUser is how the operator proves who it is: by a token, made anew at each start. The API
// server remembers tokens that it has checked, whereas it would verify a client certificate with
// every request.
type operatorUser struct {
	token string
	// tokenFile tells the API server of the token.
	tokenFile string
}

// newOperatorUser writes the token file.
func newOperatorUser(tokenFile string) (*operatorUser, error) {
	u := &operatorUser{token: rand.Text(), tokenFile: tokenFile}
	line := fmt.Sprintf("%s,%s,%s,system:masters\n", u.token, OperatorUser, OperatorUser)
	if err := WriteFile(tokenFile, []byte(line)); err != nil {
		return nil, fmt.Errorf("write %s: %w", tokenFile, err)
	}
	return u, nil
}

// config is how the operator reaches a server with a certificate of p. It is not throttled: what
// the operator writes is what users wait for.
func (u *operatorUser) config(server string, p *pki) *rest.Config {
	return &rest.Config{
		Host:            server,
		BearerToken:     u.token,
		UserAgent:       "bursar",
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: pkiutil.EncodeCertPEM(p.ca)},
	}
}
