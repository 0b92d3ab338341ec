package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/issuer"
)

// TestOIDC proves that the server accepts tokens of the issuer in its flags. Clients without a token see no more than
// before.
func TestOIDC(t *testing.T) {
	t.Parallel()
	takeServers(t, 1)
	provider := issuer.New(t)
	p := runPlane(t, apiserver.Options{DataDir: t.TempDir(), Authentication: apiserver.Authentication{OIDC: apiserver.OIDC{
		IssuerURL: provider.URL, ClientID: "bursar", CAFile: provider.CAFile(t), UsernameClaim: "email", GroupsClaim: "groups", GroupsPrefix: "oidc:",
		RequiredClaims: map[string]string{"tenant": "acme"},
	}}})
	claims := map[string]any{"iss": provider.URL, "aud": "bursar", "exp": time.Now().Add(time.Hour).Unix(), "email": "alice@example.com",
		"groups": []string{"web"}, "tenant": "acme"}
	await.NoError(t, time.Minute, func() error { // the API server asks the issuer for its keys in the background
		who, err := whoAmI(t, p, provider.Token(t, claims))
		if err != nil {
			return err
		}
		if who.Username != "alice@example.com" || len(who.Groups) != 2 || who.Groups[0] != "oidc:web" {
			return fmt.Errorf("the user is %+v", who)
		}
		return nil
	})
	claims["tenant"] = "other"
	if who, err := whoAmI(t, p, provider.Token(t, claims)); err == nil {
		t.Errorf("a token without the claim that is required is accepted for %+v", who)
	}
	if who, err := whoAmI(t, p, ""); err == nil {
		t.Errorf("without a token the user is %+v", who)
	}
}

// TestAuthenticationOptions proves that errors name the flags of invalid options.
func TestAuthenticationOptions(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("kind: Pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		reason  string
		options apiserver.Authentication
		want    string
	}{
		"both":      {"one would win", apiserver.Authentication{ConfigFile: file, OIDC: apiserver.OIDC{IssuerURL: "https://a", ClientID: "b"}}, "--authentication-config and --oidc-issuer-url exclude each other"},
		"no client": {"an audience is needed", apiserver.Authentication{OIDC: apiserver.OIDC{IssuerURL: "https://a"}}, "--oidc-issuer-url and --oidc-client-id need each other"},
		"no issuer": {"it would be without effect", apiserver.Authentication{OIDC: apiserver.OIDC{GroupsClaim: "groups"}}, "the flags --oidc-... need --oidc-issuer-url"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := apiserver.Start(t.Context(), apiserver.Options{DataDir: t.TempDir(), Listen: "127.0.0.1:0", Authentication: tt.options})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%s: got %v, want %q", tt.reason, err, tt.want)
			}
		})
	}
}

// whoAmI asks the API server for the user of a token.
func whoAmI(t *testing.T, p *runningPlane, token string) (authenticationv1.UserInfo, error) {
	t.Helper()
	config := rest.AnonymousClientConfig(p.Config())
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

// TestNobodyRequestsToBeMaster proves that the server signs no certificate for the group of administrators. Otherwise
// everybody permitted to approve requests would have the rights of an administrator.
func TestNobodyRequestsToBeMaster(t *testing.T) {
	t.Parallel()
	takeServers(t, 1)
	p := runPlane(t, apiserver.Options{DataDir: t.TempDir()})
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	request, err := certutil.MakeCSR(key, &pkix.Name{CommonName: "alice", Organization: []string{user.SystemPrivilegedGroup}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "master"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a request for %s got %v, want Forbidden", user.SystemPrivilegedGroup, err)
	}
}
