package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestForgedReview sends reviews to the webhook listener as a stranger with access to its port. An accepted review
// would reserve quota, or disclose a consumer's usage.
func TestForgedReview(t *testing.T) {
	t.Parallel()
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "bursar"}, &configuration); err != nil {
		t.Fatal(err)
	}
	called := configuration.Webhooks[0].ClientConfig
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(called.CABundle)
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	t.Cleanup(stranger.CloseIdleConnections)
	ask := func(at url.URL, method string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, at.String(), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := stranger.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	// The configuration lacks the paths of requests between replicas.
	paths := map[string]string{"/alive": http.MethodGet, "/reviewed/uid/policy/1": http.MethodGet, "/": http.MethodGet}
	for _, webhook := range configuration.Webhooks {
		at := parseURL(t, *webhook.ClientConfig.URL)
		segment, rest, _ := strings.Cut(strings.TrimPrefix(at.Path, "/"), "/")
		if code := ask(at, http.MethodPost); code != http.StatusBadRequest {
			t.Errorf("the API server is answered with %d at %s, want 400 for a body that is no review", code, webhook.Name)
		}
		paths["/"+rest] = http.MethodPost
		paths["/peer-"+strings.TrimLeft(segment, "0123456789-")+"/"+rest] = http.MethodPost
	}
	at := parseURL(t, *called.URL)
	for path, method := range paths {
		at.Path = path
		if code := ask(at, method); code != http.StatusNotFound {
			t.Errorf("a stranger is answered with %d at %s, want 404", code, path)
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
