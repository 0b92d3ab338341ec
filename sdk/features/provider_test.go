package features_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-feature/go-sdk/openfeature"
	"github.com/open-feature/go-sdk/openfeature/isolated"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/sdk/features"
)

var organization = quotav1alpha1.ConsumerRef{APIGroup: "platform.example.com", Kind: "Organization"}

// failing is the API server of the example, with a switch.
type failing struct {
	*httptest.Server
	down atomic.Bool
}

func newFailing(t *testing.T) *failing {
	api, f := server(), &failing{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.down.Load() {
			http.Error(w, "etcd is away", http.StatusServiceUnavailable)
			return
		}
		api.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
		api.Close()
	})
	return f
}

// fail ends all watches and answers no more.
func (f *failing) fail() {
	f.down.Store(true)
	f.CloseClientConnections()
}

func newProvider(t *testing.T, url string, timeout time.Duration) *features.Provider {
	t.Helper()
	provider, err := features.New(&rest.Config{Host: url}, features.Options{Consumer: organization, StartTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Shutdown)
	return provider
}

// With a lost watch a provider is stale until the next one, and evaluates by what it knows.
func TestLostWatch(t *testing.T) {
	api := newFailing(t)
	provider := newProvider(t, api.URL, 0)
	openFeature := isolated.NewAPI()
	domain := openfeature.WithDomain("shop")
	for _, options := range [][]openfeature.APIOption{nil, {domain}} { // one provider may have several domains
		if err := openFeature.SetProviderAndWait(t.Context(), provider, options...); err != nil {
			t.Fatal(err)
		}
	}
	client := openFeature.NewClient(domain)
	events := make(chan string, 10)
	for _, kind := range []openfeature.EventType{openfeature.ProviderReady, openfeature.ProviderStale, openfeature.ProviderError} {
		handler := func(details openfeature.EventDetails) { events <- string(kind) + " " + details.Message }
		client.AddHandler(kind, &handler)
	}
	want := func(prefix string, state openfeature.State) {
		t.Helper()
		select {
		case got := <-events:
			if !strings.HasPrefix(got, prefix) {
				t.Fatalf("got the event %q, want %s", got, prefix)
			}
		case <-time.After(time.Minute):
			t.Fatalf("got no event %s", prefix)
		}
		if got := client.State(); got != state {
			t.Errorf("after %s the state is %s, want %s", prefix, got, state)
		}
		if !client.Boolean(t.Context(), "dark-mode", false, openfeature.NewEvaluationContext("acme", nil)) {
			t.Errorf("after %s the feature is off", prefix)
		}
	}
	want("PROVIDER_READY", openfeature.ReadyState)
	for range 2 {
		api.fail()
		want("PROVIDER_STALE quota may be out of date: ", openfeature.StaleState)
		api.down.Store(false)
		want("PROVIDER_READY quota is up to date", openfeature.ReadyState)
	}
}

// A provider without an API server becomes ready later, and can start again.
func TestStartAgain(t *testing.T) {
	api := newFailing(t)
	api.fail()
	provider := newProvider(t, api.URL, time.Second)
	acme := openfeature.FlattenedContext{openfeature.TargetingKey: "acme"}
	isOn := func() bool { return provider.BooleanEvaluation(t.Context(), "dark-mode", false, acme).Value }
	for range 2 {
		err := provider.Init(openfeature.EvaluationContext{})
		if err == nil || !strings.Contains(err.Error(), "no list of effective grants in all namespaces within 1s") || !strings.Contains(err.Error(), "unable to handle the request") {
			t.Fatalf("without an API server: %v", err)
		}
		if got := provider.BooleanEvaluation(t.Context(), "dark-mode", false, acme); got.ResolutionDetail().ErrorCode != openfeature.ProviderNotReadyCode {
			t.Errorf("without any quota: %+v", got)
		}
	}
	api.down.Store(false)
	if event := <-provider.EventChannel(); event.EventType != openfeature.ProviderReady || !isOn() {
		t.Errorf("with an API server: %+v, on: %t", event, isOn())
	}
	for range 2 { // as for two domains
		if err := provider.Init(openfeature.EvaluationContext{}); err != nil || !isOn() {
			t.Errorf("of a ready provider: %v, on: %t", err, isOn())
		}
	}
	provider.Shutdown()
	provider.Shutdown()
	if isOn() {
		t.Error("a stopped provider evaluates")
	}
	provider = newProvider(t, api.URL, 0)
	for range 2 {
		if err := provider.Init(openfeature.EvaluationContext{}); err != nil || !isOn() {
			t.Errorf("after a shutdown: %v, on: %t", err, isOn())
		}
		provider.Shutdown()
	}
}

// A shutdown does not wait for a start.
func TestShutdownDuringStart(t *testing.T) {
	asked := make(chan struct{}, 100)
	mute := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer mute.Close()
	defer mute.CloseClientConnections()
	provider := newProvider(t, mute.URL, time.Hour)
	started := make(chan error)
	go func() { started <- provider.Init(openfeature.EvaluationContext{}) }()
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := provider.ShutdownWithContext(ctx); err != nil {
		t.Errorf("the shutdown: %v", err)
	}
	if err := <-started; err == nil || !strings.Contains(err.Error(), "was shut down before") {
		t.Errorf("the start: %v", err)
	}
}
