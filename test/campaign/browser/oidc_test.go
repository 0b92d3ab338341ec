package browser

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"github.com/bursar/bursar/test/issuer"
	"github.com/bursar/bursar/test/process"
)

// A tenant logs in with the company's provider of identities at the console of a cluster, and arrives at the requested
// page. The browser follows the provider's redirects, and blocks nothing.
func TestLoginWithProvider(t *testing.T) {
	provider := issuer.New(t)
	provider.LogsIn(t, map[string]any{
		"iss": provider.URL, "aud": "bursar", "exp": time.Now().Add(time.Hour).Unix(), "sub": "1", "email": "tina@example.com", "email_verified": true,
	})
	if _, err := shared.world.kubectl("create", "rolebinding", "tina", "-n", "org-acme", "--clusterrole=bursar-tenant-viewer", "--user=tina@example.com"); err != nil {
		t.Fatal(err)
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir, address := t.TempDir(), process.FreeAddress(t)
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listens := func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	}
	process.Run(t, "bursar console serve", listens, shared.world.binary, "console", "serve", "--kubeconfig", shared.world.kubeconfig(), "--listen", address,
		"--tls-cert-file", filepath.Join(dir, "tls.crt"), "--tls-key-file", filepath.Join(dir, "tls.key"), "--url", "https://"+address,
		"--oidc-issuer-url", provider.URL, "--oidc-client-id", "bursar", "--oidc-name", "the company", "--oidc-ca-file", provider.CAFile(t),
		"--impersonate", "--oidc-username-claim", "email").WaitReady()
	tina := opens(t, "tina", "https://"+address)
	tina.open(tina.base + "/console/quota?namespace=org-acme")
	tina.sees("Log in with the company")
	tina.wantAccessible("the login with a provider")
	tina.click("form.stack button[type=submit]")
	tina.sees("tina@example.com", "Processor cores", "16 cores")
	tina.wantNoProblems()
}
