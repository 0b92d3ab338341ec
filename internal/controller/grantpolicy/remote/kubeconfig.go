package remote

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// requestTimeMax bounds every request to another control plane.
	requestTimeMax = 10 * time.Second
	// requestsPerSecond and requestsAtOnce bound the load on another control plane.
	requestsPerSecond = 50
	requestsAtOnce    = 100
)

// Config returns the client configuration of a kubeconfig's current context. It rejects a kubeconfig if a client would
// run a program here or read files from here.
func Config(kubeconfig []byte) (*rest.Config, error) {
	if len(kubeconfig) == 0 {
		return nil, errors.New("the Secret holds no kubeconfig under the key kubeconfig or value")
	}
	parsed, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be read: %w", err)
	}
	current := parsed.Contexts[parsed.CurrentContext]
	if current == nil {
		return nil, fmt.Errorf("the kubeconfig has no context %q, but its current-context names it", parsed.CurrentContext)
	}
	cluster, user := parsed.Clusters[current.Cluster], parsed.AuthInfos[current.AuthInfo]
	switch {
	case cluster == nil:
		return nil, fmt.Errorf("the kubeconfig has no cluster %q, but its current context uses it", current.Cluster)
	case user == nil:
		return nil, fmt.Errorf("the kubeconfig has no user %q, but its current context uses it", current.AuthInfo)
	}
	if err := checkContained(cluster, user); err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*parsed, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	config.Timeout = requestTimeMax
	config.QPS, config.Burst = requestsPerSecond, requestsAtOnce
	config.UserAgent = "bursar"
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// checkContained rejects references to anything outside the kubeconfig.
func checkContained(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	switch {
	case user.Exec != nil:
		return fmt.Errorf("the kubeconfig gets its credentials from the program %q (exec), which Bursar does not run; use a token or a client certificate", user.Exec.Command)
	case user.AuthProvider != nil:
		return fmt.Errorf("the kubeconfig gets its credentials from the auth-provider %q, which Bursar does not use; use a token or a client certificate", user.AuthProvider.Name)
	}
	for _, reference := range []struct{ field, file, instead string }{
		{"certificate-authority", cluster.CertificateAuthority, "certificate-authority-data"},
		{"client-certificate", user.ClientCertificate, "client-certificate-data"},
		{"client-key", user.ClientKey, "client-key-data"},
		{"tokenFile", user.TokenFile, "token"},
	} {
		if reference.file != "" {
			return fmt.Errorf("the kubeconfig refers to the file %q (%s), and Bursar reads no files for it; use %s", reference.file, reference.field, reference.instead)
		}
	}
	return nil
}
