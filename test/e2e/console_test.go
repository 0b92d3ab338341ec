package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// Without a session, a person gets to the login, and reads nothing.
func TestConsoleNeedsLogin(t *testing.T) {
	b := browse(t, rest.ImpersonationConfig{UserName: "ann", Groups: []string{"system:masters"}}, "")
	b.client.Jar = nil
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, path := range []string{"/", "/quota", "/live?watch=/quotarequests", "/nowhere"} {
		response, err := b.client.Get(b.base + "/console" + path)
		must(t, err)
		must(t, response.Body.Close())
		if to := response.Header.Get("Location"); response.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, "/console/login") {
			t.Errorf("%s: %s, Location %q", path, response.Status, to)
		}
	}
}

// A one-time token begins one session, and a wrong one none.
func TestConsoleOneTimeToken(t *testing.T) {
	b := browse(t, rest.ImpersonationConfig{UserName: "ann", Groups: []string{"system:masters"}}, "")
	for _, token := range []string{"", "wrong"} {
		nobody := &http.Client{Transport: b.client.Transport} // without the session's cookie
		response, err := nobody.PostForm(b.base+"/console/login/once", url.Values{"token": {token}})
		must(t, err)
		if status, _ := b.read(response); status != http.StatusUnauthorized {
			t.Errorf("token %q: %d", token, status)
		}
	}
}

// Every answer has the security headers, errors included.
func TestConsoleHeaders(t *testing.T) {
	b := browse(t, rest.ImpersonationConfig{UserName: "ann", Groups: []string{"system:masters"}}, "")
	for _, path := range []string{"/login", "/nowhere", "/assets/console.css", "/live?watch=/nothing"} {
		response, err := b.client.Get(b.base + "/console" + path)
		must(t, err)
		must(t, response.Body.Close())
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":  "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s: %s: %q, want %q", path, name, got, want)
			}
		}
	}
}

// A form without the session's secret, or from another site, does nothing.
func TestConsoleForms(t *testing.T) {
	b := browse(t, rest.ImpersonationConfig{UserName: "ann", Groups: []string{"system:masters"}}, "")
	response, err := b.client.PostForm(b.base+"/console/logout", url.Values{"csrf": {"wrong"}})
	must(t, err)
	must(t, response.Body.Close())
	if status, _ := b.get("/nowhere"); status != http.StatusNotFound {
		t.Errorf("a form without the secret logged out: %d", status)
	}
	match := csrfField.FindStringSubmatch(func() string { _, page := b.get("/nowhere"); return page }())
	request, err := http.NewRequest(http.MethodPost, b.base+"/console/logout", strings.NewReader(url.Values{"csrf": {match[1]}}.Encode()))
	must(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	response, err = b.client.Do(request)
	must(t, err)
	if status, page := b.read(response); status != http.StatusForbidden {
		t.Errorf("a form of another site: %d\n%s", status, page)
	}
	if status, _ := b.get("/nowhere"); status != http.StatusNotFound {
		t.Errorf("a form of another site logged out: %d", status)
	}
}
