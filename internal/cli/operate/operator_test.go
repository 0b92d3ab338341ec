package operate

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
)

// A kubeconfig good enough for kubectl is good enough for the operator.
func TestFindClusterWithAuthProvider(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {auth-provider: {name: oidc, config: {idp-issuer-url: "https://127.0.0.1:2", client-id: bursar, id-token: x}}}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := findCluster(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rest.HTTPClientFor(config); err != nil {
		t.Errorf("a kubeconfig with an auth-provider: %v", err)
	}
}
