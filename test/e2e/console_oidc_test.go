package e2e

import (
	"errors"
	"html"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/console"
	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/issuer"
)

// withOIDC returns a browser without a session, on a console with logins by the provider.
func withOIDC(t *testing.T, i *issuer.Issuer, api *rest.Config, impersonate *console.Impersonate) *browser {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	t.Cleanup(server.Close)
	handler, err := console.New(t.Context(), console.Options{
		Login: console.Server{API: rest.AnonymousClientConfig(api), OIDC: &console.OIDC{
			Name: "the company", IssuerURL: i.URL, ClientID: "bursar", URL: server.URL, Scopes: []string{"email"}, HTTP: i.Client(), Impersonate: impersonate,
		}},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	must(t, err)
	server.Config.Handler = handler
	jar, err := cookiejar.New(nil)
	must(t, err)
	authorities := server.Client().Transport.(*http.Transport).Clone()
	authorities.TLSClientConfig.RootCAs.AddCert(i.Certificate())
	t.Cleanup(authorities.CloseIdleConnections)
	return &browser{T: t, client: &http.Client{Jar: jar, Transport: authorities}, base: server.URL}
}

var linkElsewhere = regexp.MustCompile(`<a href="(https://[^"]+/authorize[^"]*)"`)

// logIn logs in with the provider: it follows the link to it.
func (b *browser) logIn(to string) (status int, page string) {
	b.Helper()
	status, page = b.post("/login/oidc", url.Values{"to": {to}})
	match := linkElsewhere.FindStringSubmatch(page)
	if status != http.StatusOK || match == nil {
		b.Fatalf("the login leads to no provider: %d\n%s", status, page)
	}
	response, err := b.client.Get(html.UnescapeString(match[1]))
	must(b.T, err)
	return b.read(response)
}

// claimsOf are the claims about a user of a provider.
func claimsOf(i *issuer.Issuer, more map[string]any) map[string]any {
	claims := map[string]any{"iss": i.URL, "aud": "bursar", "exp": time.Now().Add(time.Hour).Unix(), "sub": "1", "email": "alice@example.com", "groups": []string{"web", "other", "system:masters"}}
	maps.Copy(claims, more)
	return claims
}

// A person logs in with the provider, and the console acts with the person's ID token.
func TestConsoleOIDC(t *testing.T) {
	t.Parallel()
	takeServers(t, 1)
	provider := issuer.New(t)
	p := runPlane(t, apiserver.Options{DataDir: t.TempDir(), Authentication: apiserver.Authentication{OIDC: apiserver.OIDC{
		IssuerURL: provider.URL, ClientID: "bursar", CAFile: provider.CAFile(t), UsernameClaim: "email",
	}}})
	provider.LogsIn(t, claimsOf(provider, nil))
	eventually(t, func() error { // the API server asks the issuer for its keys in the background
		_, err := whoAmI(t, p, provider.Token(t, claimsOf(provider, nil)))
		return err
	})
	b := withOIDC(t, provider, p.Config(), nil)
	if _, page := b.get("/nowhere"); !strings.Contains(page, "Log in with the company") {
		t.Fatalf("the login does not offer the provider:\n%s", page)
	}
	if _, page := b.logIn("/nowhere"); !strings.Contains(page, `href="/console/nowhere"`) {
		t.Fatalf("the login does not lead to the page that was asked for:\n%s", page)
	}
	if _, page := b.get("/nowhere"); !strings.Contains(page, "alice@example.com") {
		t.Errorf("after the login:\n%s", page)
	}
}

// If the API server does not trust the provider, the console impersonates the person, as far as it may.
func TestConsoleOIDCImpersonates(t *testing.T) {
	t.Parallel()
	provider := issuer.New(t)
	provider.LogsIn(t, claimsOf(provider, nil))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "impersonating-console", Namespace: "default"}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: account.Name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}, ResourceNames: []string{"oidc:alice@example.com"}},
		{APIGroups: []string{""}, Resources: []string{"groups"}, Verbs: []string{"impersonate"}, ResourceNames: []string{"web"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: account.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}}
	token := &authenticationv1.TokenRequest{}
	must(t, errors.Join(admin.Create(t.Context(), account), admin.Create(t.Context(), role), admin.Create(t.Context(), binding), admin.SubResource("token").Create(t.Context(), account, token)))
	own := rest.AnonymousClientConfig(started.Config)
	own.BearerToken = token.Status.Token
	impersonated := rest.CopyConfig(own)
	impersonated.Impersonate = rest.ImpersonationConfig{UserName: "oidc:alice@example.com", Groups: []string{"web"}}
	api, err := kubernetes.NewForConfig(impersonated)
	must(t, err)
	eventually(t, func() error { // the API server learns of the account and of its rights
		_, err := api.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return err
	})
	b := withOIDC(t, provider, started.Config, &console.Impersonate{Config: own, UsernameClaim: "email", UsernamePrefix: "oidc:", GroupsClaim: "groups", Groups: []string{"web"}})
	if status, page := b.logIn(""); status != http.StatusOK {
		t.Fatalf("the login: %d\n%s", status, page)
	}
	if _, page := b.get("/nowhere"); !strings.Contains(page, "oidc:alice@example.com") {
		t.Errorf("after the login:\n%s", page)
	}
}

// The console rejects a login that it did not begin, or that has a wrong token.
func TestConsoleOIDCDenies(t *testing.T) {
	t.Parallel()
	provider := issuer.New(t)
	for name, claims := range map[string]map[string]any{
		"another audience": {"aud": "other"}, "expired": {"exp": time.Now().Add(-time.Hour).Unix()}, "another nonce": {"nonce": "other"},
		"no name": {"email": ""}, "reserved": {"email": "system:admin"}, "unverified": {"email_verified": false}, "not known to be verified": {"email_verified": "false"},
	} {
		t.Run(name, func(t *testing.T) {
			provider := issuer.New(t)
			provider.LogsIn(t, claimsOf(provider, claims))
			b := withOIDC(t, provider, started.Config, &console.Impersonate{Config: started.Config, UsernameClaim: "email"})
			if status, page := b.logIn(""); status != http.StatusUnauthorized {
				t.Errorf("the login: %d\n%s", status, page)
			}
		})
	}
	b := withOIDC(t, provider, started.Config, nil)
	if status, page := b.get("/login/oidc/callback?code=one&state=x"); status != http.StatusUnauthorized {
		t.Errorf("a login that the console did not begin: %d\n%s", status, page)
	}
}
