package e2e

import (
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/console"
	"github.com/bursar/bursar/internal/console/session"
)

// browser is a person's browser without a script, on a console of the person's own.
type browser struct {
	*testing.T
	client *http.Client
	base   string
}

// browse starts a console as the impersonated user, and logs in.
func browse(t *testing.T, who rest.ImpersonationConfig, namespace string) *browser {
	t.Helper()
	config := rest.CopyConfig(started.Config)
	config.Impersonate = who
	token := session.NewOneTime()
	server := httptest.NewUnstartedServer(nil)
	_, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
	handler, err := console.New(t.Context(), console.Options{
		Login: console.Loopback{Token: token, Credentials: session.Credentials{Config: config, Namespace: namespace}, Port: port},
		Log:   slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	must(t, err)
	server.Config.Handler = handler
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	jar, err := cookiejar.New(nil)
	must(t, err)
	b := &browser{T: t, client: &http.Client{Jar: jar}, base: server.URL}
	response, err := b.client.PostForm(b.base+"/console/login/once", url.Values{"token": {token.Secret()}})
	must(t, err)
	must(t, response.Body.Close())
	if response.Request.URL.Path == "/console/login/once" {
		t.Fatalf("%s cannot log in: %s", who.UserName, response.Status)
	}
	return b
}

// get returns the status and the text of a page. The path is without /console.
func (b *browser) get(path string) (status int, page string) {
	b.Helper()
	response, err := b.client.Get(b.base + "/console" + path)
	must(b.T, err)
	return b.read(response)
}

func (b *browser) read(response *http.Response) (status int, page string) {
	b.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(b.T, err)
	return response.StatusCode, string(body)
}

// wantPage wants a page with some texts.
func (b *browser) wantPage(path string, texts ...string) string {
	b.Helper()
	status, page := b.get(path)
	if status != http.StatusOK {
		b.Fatalf("GET %s: %d\n%s", path, status, page)
	}
	for _, text := range texts {
		if !strings.Contains(page, text) {
			b.Errorf("GET %s: the page has no %q:\n%s", path, text, page)
		}
	}
	return page
}

// waitPage waits until a page has some texts, as source or as read by a person. Quota and the journal appear a little
// later.
func (b *browser) waitPage(path string, texts ...string) (page string) {
	b.Helper()
	eventually(b.T, func() error {
		var status int
		status, page = b.get(path)
		for _, want := range texts {
			if status != http.StatusOK || !strings.Contains(page, want) && !strings.Contains(html.UnescapeString(page), want) {
				return fmt.Errorf("GET %s: %d, and no %q:\n%s", path, status, want, page)
			}
		}
		return nil
	})
	return page
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// send sends a form from a page, with the page's secret, and returns the next page.
func (b *browser) send(from, to string, fields url.Values) (status int, page string) {
	b.Helper()
	match := csrfField.FindStringSubmatch(b.wantPage(from))
	if match == nil {
		b.Fatalf("%s has no form", from)
	}
	fields.Set("csrf", match[1])
	response, err := b.client.PostForm(b.base+"/console"+to, fields)
	must(b.T, err)
	return b.read(response)
}
