// Package issuer is an OpenID Connect provider for tests: it signs the tokens requested by a test.
package issuer

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// Issuer is a provider. Its URL is the issuer of its tokens.
type Issuer struct {
	*httptest.Server
	key *rsa.PrivateKey
	mux *http.ServeMux
}

// New starts a provider. It ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{key: key, mux: http.NewServeMux()}
	i.Server = httptest.NewTLSServer(i.mux)
	t.Cleanup(i.Close)
	i.answer("/.well-known/openid-configuration", map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
		"authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
	})
	i.answer("/keys", map[string]any{"keys": []any{map[string]any{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1",
		"n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
	}}})
	return i
}

// answer makes the provider answer a path with JSON.
func (i *Issuer) answer(path string, content any) {
	i.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(content)
	})
}

func encode(content []byte) string { return base64.RawURLEncoding.EncodeToString(content) }

// CAFile is the path of the authority of the provider's certificate.
func (i *Issuer) CAFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Token signs claims.
func (i *Issuer) Token(t testing.TB, claims map[string]any) string {
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

// LogsIn makes the provider log in everybody who comes, by the authorization code flow with PKCE (RFC 7636). The nonce
// of a token is the requested one, unless the claims have one.
func (i *Issuer) LogsIn(t testing.TB, claims map[string]any) {
	t.Helper()
	var asked url.Values
	i.mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query()
		back := asked.Get("redirect_uri") + "?" + url.Values{"code": {"one"}, "state": {asked.Get("state")}}.Encode()
		http.Redirect(w, r, back, http.StatusFound)
	})
	i.mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if r.PostFormValue("code") != "one" || encode(sum[:]) != asked.Get("code_challenge") {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		given := map[string]any{"nonce": asked.Get("nonce")}
		maps.Copy(given, claims)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": i.Token(t, given)})
	})
}
