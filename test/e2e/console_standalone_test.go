package e2e

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// atServer returns a browser without a session, on the console of the standalone server.
func atServer(t *testing.T, config *rest.Config) *browser {
	t.Helper()
	settings, err := rest.TLSConfigFor(config)
	must(t, err)
	jar, err := cookiejar.New(nil)
	must(t, err)
	transport := &http.Transport{TLSClientConfig: settings}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{T: t, client: &http.Client{Jar: jar, Transport: transport}, base: strings.TrimSuffix(config.Host, "/")}
}

// post sends a form without a session.
func (b *browser) post(path string, fields url.Values) (status int, page string) {
	b.Helper()
	response, err := b.client.PostForm(b.base+"/console"+path, fields)
	must(b.T, err)
	return b.read(response)
}

// The standalone server serves the console. A token logs in, and the console acts with only this token.
func TestConsoleOfServerTakesTokens(t *testing.T) {
	t.Parallel()
	account, token := withAccount(t, "default")
	b := atServer(t, rest.AnonymousClientConfig(started.Config))
	if _, page := b.get("/"); !strings.Contains(page, "Bearer token of the API server") {
		t.Errorf("the first page without a session asks for no token:\n%s", page)
	}
	for wrong, want := range map[string]int{"": 422, "no token": 422, "wrong": 401, token + "x": 401} {
		if status, page := b.post("/login", url.Values{"token": {wrong}}); status != want {
			t.Errorf("token %q: %d, want %d\n%s", wrong, status, want, page)
		}
	}
	status, page := b.post("/login", url.Values{"token": {token}, "to": {"/nowhere"}})
	if want := "system:serviceaccount:default:" + account.Name; status != http.StatusNotFound || !strings.Contains(page, want) {
		t.Errorf("after the login: %d, want %s on the page:\n%s", status, want, page)
	}
	if strings.Contains(page, token) {
		t.Error("the page has the token")
	}
	// The session ends with its token.
	must(t, admin.Delete(t.Context(), account, client.GracePeriodSeconds(0)))
	eventually(t, func() error {
		if _, page := b.get("/quota"); !strings.Contains(page, "Bearer token of the API server") {
			return fmt.Errorf("the session of a deleted account goes on:\n%s", page)
		}
		return nil
	})
}

// A person's client certificate for kubectl logs in as well.
func TestConsoleOfServerTakesCertificates(t *testing.T) {
	t.Parallel()
	b := atServer(t, started.Config)
	if _, page := b.get("/login"); !strings.Contains(page, "Log in as admin") {
		t.Errorf("the login does not offer the certificate:\n%s", page)
	}
	if _, page := b.post("/login/certificate", url.Values{"to": {"/nowhere"}}); !strings.Contains(page, `class="user"`) || !strings.Contains(page, "admin") {
		t.Errorf("the certificate does not log in:\n%s", page)
	}
	without := atServer(t, rest.AnonymousClientConfig(started.Config))
	if status, page := without.post("/login/certificate", nil); status != http.StatusUnauthorized {
		t.Errorf("without a certificate: %d\n%s", status, page)
	}
}

// The login leads only to pages of the console, for any link.
func TestConsoleLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"https://evil.example.com", "//evil.example.com", `/\evil.example.com`, "javascript:alert(1)"} {
		b := atServer(t, started.Config)
		b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		response, err := b.client.PostForm(b.base+"/console/login/certificate", url.Values{"to": {to}})
		must(t, err)
		must(t, response.Body.Close())
		if got := response.Header.Get("Location"); got != "/console/" {
			t.Errorf("to %q: Location %q", to, got)
		}
	}
}

// Browsers keep the cookie from scripts, other sites and connections without TLS.
func TestConsoleCookie(t *testing.T) {
	t.Parallel()
	b := atServer(t, started.Config)
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := b.client.PostForm(b.base+"/console/login/certificate", nil)
	must(t, err)
	must(t, response.Body.Close())
	for _, cookie := range response.Cookies() {
		if !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode || !strings.HasPrefix(cookie.Name, "__Host-") {
			t.Errorf("the cookie is %s", cookie)
		}
	}
	if len(response.Cookies()) != 1 {
		t.Errorf("%d cookies", len(response.Cookies()))
	}
	if response.TLS == nil || response.TLS.Version < tls.VersionTLS12 {
		t.Error("the console is not served by TLS")
	}
}
