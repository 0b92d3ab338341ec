package e2e

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/config"
)

// withAccount makes a ServiceAccount, and returns a token for it. The API server already accepts the token.
func withAccount(t *testing.T, namespace string) (account *corev1.ServiceAccount, token string) {
	t.Helper()
	account = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: "console-", Namespace: namespace}}
	must(t, admin.Create(t.Context(), account))
	request := &authenticationv1.TokenRequest{}
	must(t, admin.SubResource("token").Create(t.Context(), account, request))
	own := rest.AnonymousClientConfig(started.Config)
	own.BearerToken = request.Status.Token
	api, err := kubernetes.NewForConfig(own)
	must(t, err)
	eventually(t, func() error { // the account is new to the API server's authenticator
		_, err := api.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return err
	})
	return account, request.Status.Token
}

// Beginning many sessions ends one's own sessions, and nobody else's. ServiceAccounts of one namespace count as one
// person with a larger maximum.
func TestConsoleSessionsOfOne(t *testing.T) {
	t.Parallel()
	// The sessions of a namespace count together, so this is not the namespace of other tests.
	namespace := nameOf(t)
	must(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	_, token := withAccount(t, namespace)
	_, tokenOfSame := withAccount(t, namespace)
	_, tokenOfOther := withAccount(t, "kube-public")
	logIn := func(token string) *browser {
		b := atServer(t, rest.AnonymousClientConfig(started.Config))
		if _, page := b.post("/login", url.Values{"token": {token}, "to": {"/nowhere"}}); !strings.Contains(page, "Log out") {
			t.Fatalf("the login does not succeed:\n%s", page)
		}
		return b
	}
	isLoggedIn := func(b *browser) bool { _, page := b.get("/nowhere"); return strings.Contains(page, "Log out") }
	other, first := logIn(tokenOfOther), logIn(token)
	var last *browser
	for range 50 {
		logIn(token)
		last = logIn(tokenOfSame)
	}
	if isLoggedIn(first) || !isLoggedIn(last) || !isLoggedIn(other) {
		t.Errorf("the first session lasts: %t, want false; the last: %t, that of another: %t, want true", isLoggedIn(first), isLoggedIn(last), isLoggedIn(other))
	}
}

// Nobody without a session makes the console read much.
func TestConsoleLoginIsSmall(t *testing.T) {
	t.Parallel()
	b := atServer(t, rest.AnonymousClientConfig(started.Config))
	if status, page := b.post("/login", url.Values{"token": {strings.Repeat("a", 100<<10)}}); status < 400 || strings.Contains(page, "Log out") {
		t.Errorf("a token of 100 KiB: %d\n%s", status, page)
	}
}

// A form that is too large is answered as such, and not as a form of another session.
func TestConsoleFormIsTooLarge(t *testing.T) {
	t.Parallel()
	b := atServer(t, started.Config)
	b.post("/login/certificate", nil)
	if status, page := b.post("/try", url.Values{"manifest": {strings.Repeat("a", 3<<20)}}); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a form of 3 MiB: %d, want 413\n%s", status, page)
	}
}

// A stranger opens more logins than the console holds, and finishes none. Others see the login page and log in.
func TestConsoleStrangersStopNoLogin(t *testing.T) {
	t.Parallel()
	_, token := withAccount(t, "default")
	stranger := atServer(t, rest.AnonymousClientConfig(started.Config))
	for range 200 {
		body, unfinished := io.Pipe()
		t.Cleanup(func() { _ = unfinished.Close() })
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, stranger.base+"/console/login", body)
		must(t, err)
		go func() {
			if response, err := stranger.client.Do(request); err == nil {
				_ = response.Body.Close()
			}
		}()
		_, err = unfinished.Write([]byte("token=")) // the connection stands
		must(t, err)
	}

	for range 10 {
		b := atServer(t, rest.AnonymousClientConfig(started.Config))
		if status, page := b.get("/login"); status != http.StatusOK {
			t.Fatalf("the login page beside unfinished logins: %d\n%s", status, page)
		}
		if _, page := b.post("/login", url.Values{"token": {token}, "to": {"/nowhere"}}); !strings.Contains(page, "Log out") {
			t.Fatalf("the login beside unfinished ones does not succeed:\n%s", page)
		}
	}
}

// A login in a browser with a session ends the former session: nobody could log out of it any more.
func TestConsoleLoginEndsFormerSession(t *testing.T) {
	t.Parallel()
	namespace := nameOf(t)
	must(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	_, token := withAccount(t, namespace)
	b := atServer(t, rest.AnonymousClientConfig(started.Config))
	b.post("/login", url.Values{"token": {token}})
	home, err := url.Parse(b.base + "/console")
	must(t, err)
	copied := atServer(t, rest.AnonymousClientConfig(started.Config))
	copied.client.Jar.SetCookies(home, b.client.Jar.Cookies(home))
	if _, page := copied.get("/nowhere"); !strings.Contains(page, "Log out") {
		t.Fatalf("the cookie of the session does not work:\n%s", page)
	}

	b.post("/login", url.Values{"token": {token}})
	if _, page := copied.get("/nowhere"); strings.Contains(page, "Log out") {
		t.Errorf("the former session goes on after another login in its browser:\n%s", page)
	}
	if _, page := b.get("/nowhere"); !strings.Contains(page, "Log out") {
		t.Errorf("the new session does not work:\n%s", page)
	}
}

// A stream sends an event after a change of a watched object, and none about objects outside the person's permissions.
func TestConsoleStream(t *testing.T) {
	t.Parallel()
	path := "/live?watch=" + config.DefaultSystemNamespace + "/effectiveresourcegrants"
	b := atServer(t, started.Config)
	b.post("/login/certificate", nil)
	events := b.stream(path)
	_, token := withAccount(t, "default")
	outside := atServer(t, rest.AnonymousClientConfig(started.Config))
	outside.post("/login", url.Values{"token": {token}})
	hidden := outside.stream(path)
	w := newProtectedWorld(t, 100)
	eventually(t, func() error { // the watch may begin after the first change
		object := w.configMap("")
		object.GenerateName = w.name + "-"
		if err := admin.Create(t.Context(), object); err != nil {
			return err
		}
		select {
		case <-events:
			return nil
		default:
			return errors.New("no event came")
		}
	})
	select {
	case line := <-hidden:
		t.Errorf("a person without a right gets %q", line)
	default:
	}
}

// stream returns the events of a stream.
func (b *browser) stream(path string) <-chan string {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.base+"/console"+path, nil)
	must(b.T, err)
	response, err := b.client.Do(request)
	must(b.T, err)
	if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
		b.Fatalf("%s is %s", path, kind)
	}
	events := make(chan string, 100)
	go func() {
		defer response.Body.Close()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "event: ") {
				events <- lines.Text()
			}
		}
	}()
	return events
}
