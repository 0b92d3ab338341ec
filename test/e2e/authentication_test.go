package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
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
)

// TestOIDC proves that the tokens of an issuer that the flags name are accepted, and that those who have none still see
// no more than before.
func TestOIDC(t *testing.T) {
	t.Parallel()
	takeServers(t, 1)
	issuer := newIssuer(t)
	p := runPlane(t, apiserver.Options{DataDir: t.TempDir(), Authentication: apiserver.Authentication{OIDC: apiserver.OIDC{
		IssuerURL: issuer.URL, ClientID: "bursar", CAFile: issuer.caFile(t), UsernameClaim: "email", GroupsClaim: "groups", GroupsPrefix: "oidc:",
		RequiredClaims: map[string]string{"tenant": "acme"},
	}}})
	claims := map[string]any{"iss": issuer.URL, "aud": "bursar", "exp": time.Now().Add(time.Hour).Unix(), "email": "alice@example.com",
		"groups": []string{"web"}, "tenant": "acme"}
	await.NoError(t, time.Minute, func() error { // the API server asks the issuer for its keys in the background
		who, err := whoAmI(t, p, issuer.token(t, claims))
		if err != nil {
			return err
		}
		if who.Username != "alice@example.com" || len(who.Groups) != 2 || who.Groups[0] != "oidc:web" {
			return fmt.Errorf("the user is %+v", who)
		}
		return nil
	})
	claims["tenant"] = "other"
	if who, err := whoAmI(t, p, issuer.token(t, claims)); err == nil {
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

// whoAmI asks the API server who has a token.
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

// issuer is an OpenID Connect provider.
type issuer struct {
	*httptest.Server
	key *rsa.PrivateKey
	mux *http.ServeMux
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	i := &issuer{key: key, mux: mux}
	answer := func(content any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(content)
		}
	}
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	mux.HandleFunc("/.well-known/openid-configuration", answer(map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
		"authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
	}))
	mux.HandleFunc("/keys", answer(map[string]any{"keys": []any{map[string]any{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1",
		"n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
	}}}))
	return i
}

func encode(content []byte) string { return base64.RawURLEncoding.EncodeToString(content) }

// caFile is the path of the authority of the issuer's certificate.
func (i *issuer) caFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// token signs claims.
func (i *issuer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	content, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed := encode([]byte(`{"alg":"RS256","kid":"1"}`)) + "." + encode(content)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + encode(signature)
}

// TestNobodyRequestsToBeMaster proves that no certificate is signed for the group of administrators: otherwise the
// permission to approve requests would be that of an administrator.
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
