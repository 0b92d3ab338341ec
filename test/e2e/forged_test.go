package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/operator"
)

// reachable is an operator with a listener for API servers, and a stranger who reaches its port.
type reachable struct {
	*testing.T
	api      kubernetes.Interface
	stranger *http.Client
}

func newReachable(t *testing.T) *reachable {
	t.Helper()
	plane := startPlane(t)
	api, err := kubernetes.NewForConfig(plane.Config())
	must(t, err)
	t.Cleanup(runOptions(t, operator.Options{Config: plane.Config(), InstallCRDs: true}))
	l := &reachable{T: t, api: api}

	roots := x509.NewCertPool()
	for _, called := range l.published() {
		roots.AppendCertsFromPEM(called.CABundle)
	}
	l.stranger = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	t.Cleanup(l.stranger.CloseIdleConnections)
	return l
}

// published returns the API server's way to each webhook.
func (l *reachable) published() map[string]admissionregistrationv1.WebhookClientConfig {
	l.Helper()
	all := map[string]admissionregistrationv1.WebhookClientConfig{}
	validating, err := l.api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(l.Context(), "bursar", metav1.GetOptions{})
	must(l, err)
	for _, w := range validating.Webhooks {
		all[w.Name] = w.ClientConfig
	}
	mutating, err := l.api.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(l.Context(), "bursar", metav1.GetOptions{})
	must(l, err)
	for _, w := range mutating.Webhooks {
		all[w.Name] = w.ClientConfig
	}
	return all
}

// path returns the segment of a published webhook and the path behind it.
func (l *reachable) path(webhook string) (at url.URL, segment, rest string) {
	l.Helper()
	at = parseURL(l.T, *l.published()[webhook].URL)
	segment, rest, _ = strings.Cut(strings.TrimPrefix(at.Path, "/"), "/")
	return at, segment, "/" + rest
}

// send sends a body that is no review, and returns the status of the answer.
func (l *reachable) send(at url.URL, method string) int {
	l.Helper()
	request, err := http.NewRequestWithContext(l.Context(), method, at.String(), strings.NewReader("{}"))
	must(l, err)
	response, err := l.stranger.Do(request)
	must(l, err)
	_ = response.Body.Close()
	return response.StatusCode
}

// TestForgedReview sends reviews to the webhook listener as a stranger with access to its port, without a path and with
// the path of one webhook. An accepted review would reserve quota, or disclose a consumer's usage.
func TestForgedReview(t *testing.T) {
	t.Parallel()
	l := newReachable(t)
	// The configuration lacks the paths of requests between replicas.
	const alive, reviewed = "/alive", "/reviewed/policy/1"
	paths := map[string]string{alive: http.MethodGet, reviewed: http.MethodPost, "/exposed/1": http.MethodPost, "/": http.MethodGet}
	at, question, ownPath := l.path("quotareview.quota.miloapis.com")
	for name := range l.published() {
		called, segment, rest := l.path(name)
		if code := l.send(called, http.MethodPost); code != http.StatusBadRequest {
			t.Errorf("the API server is answered with %d at %s, want 400 for a body that is no review", code, name)
		}
		paths[rest] = http.MethodPost
		paths["/peer-"+strings.TrimLeft(segment, "0123456789-")+rest] = http.MethodPost
		if rest != ownPath {
			paths["/"+question+rest] = http.MethodPost
		}
	}
	paths["/"+question+"/enforce/0000000000000000-0000000000000000"] = http.MethodPost
	paths["/"+question+alive], paths["/"+question+reviewed] = http.MethodGet, http.MethodPost
	for path, method := range paths {
		at.Path = path
		if code := l.send(at, method); code != http.StatusNotFound {
			t.Errorf("a stranger is answered with %d at %s, want 404", code, path)
		}
	}
}

// TestFailedCallChangesPaths has a call end without an answer. Its error has shown the path to a user, so the path soon
// opens nothing.
func TestFailedCallChangesPaths(t *testing.T) {
	t.Parallel()
	l := newReachable(t)
	const webhook = "quotareview.quota.miloapis.com"
	at, segment, _ := l.path(webhook)
	ctx, giveUp := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), endless{giveUp})
	must(t, err)
	request.ContentLength = 1 << 20
	if response, err := l.stranger.Do(request); err == nil {
		_ = response.Body.Close()
		t.Fatalf("a call without a whole body is answered with %s", response.Status)
	}

	eventually(t, func() error {
		if _, current, _ := l.path(webhook); current == segment {
			return errors.New("after a failed call the path is still published")
		}
		if code := l.send(at, http.MethodPost); code != http.StatusNotFound {
			return fmt.Errorf("the path that a failed call has shown is answered with %d", code)
		}
		return nil
	})
}

// endless is a body whose sender gives up.
type endless struct{ giveUp func() }

func (e endless) Read(p []byte) (int, error) {
	p[0] = ' '
	time.AfterFunc(time.Millisecond, e.giveUp)
	return 1, nil
}

// TestLateAnswerShowsNoPath has a handler that does not answer in time. The API server's error names no path.
func TestLateAnswerShowsNoPath(t *testing.T) {
	api := barePlane(t).api
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-released
	})
	s, err := server.New(t.Context(), server.Options{}, server.Dependencies{Log: logr.Discard()}, slow)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	go func() { _ = s.Serve(ctx, ctx) }()

	name := nameOf(t)
	_, err = api.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	webhook := admissionregistrationv1.ValidatingWebhook{
		Name: "slow.example.com", ClientConfig: s.ClientConfig("/enforce/1"), TimeoutSeconds: new(int32(2)),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}},
		SideEffects:       new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
	}
	configurations := api.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = configurations.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{webhook},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = configurations.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })

	eventually(t, func() error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "late-", Namespace: name}}
		_, err := api.CoreV1().ConfigMaps(name).Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("the webhook was not called")
		}
		if strings.Contains(err.Error(), "/enforce/1") {
			t.Fatalf("the error shows the path: %v", err)
		}
		return nil
	})
}

// TestStandaloneHasNoSecretPath reads the webhook configurations of a standalone server. Nobody else can call its
// webhooks, so there is no address and no secret in them.
func TestStandaloneHasNoSecretPath(t *testing.T) {
	t.Parallel()
	api, err := kubernetes.NewForConfig(started.Config)
	must(t, err)
	l := &reachable{T: t, api: api}
	for name, called := range l.published() {
		if called.URL != nil || called.CABundle != nil {
			t.Errorf("%s is called at %+v", name, called)
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(*called.Service.Path, "/"), "/")
		if strings.ContainsAny(first, "0123456789") {
			t.Errorf("%s has a segment in its path: %s", name, *called.Service.Path)
		}
	}
}

func parseURL(t *testing.T, address string) url.URL {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return *at
}
