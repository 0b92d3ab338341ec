package e2e

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bursar/bursar/internal/admission/validate"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
	"github.com/bursar/bursar/test/await"
)

// promptly bounds waits for immediate effects. It is shorter than the interval of the controller's checks, so these
// cannot stand in for the tested code.
const promptly = 10 * time.Second

// configMapTrigger is the one protected kind here.
var configMapTrigger = catalog.Trigger{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Enforced: true}

// declared is the policies and kinds of a controller. Tests change it.
type declared struct {
	mu       sync.Mutex
	triggers []catalog.Trigger
	revision int64
}

func (d *declared) set(triggers ...catalog.Trigger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.triggers = triggers
	d.revision++
}

func (d *declared) Protected() catalog.Protected {
	d.mu.Lock()
	defer d.mu.Unlock()
	return catalog.Protected{Triggers: slices.Clone(d.triggers), Version: catalog.Version{Policies: 7}, Revision: d.revision}
}

// isInEffect reports whether the declared policies are effective.
func (d *declared) isInEffect(c *webhookconfig.Controller) bool {
	return c.IsEffective(configMapTrigger.GroupVersionKind, d.Protected().Revision)
}

func (d *declared) DefinedResourceFor(_ context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	return kind.GroupVersion().WithResource("configmaps"), true, nil
}

// reach is the API server's way to a test server.
type reach struct {
	url string
	ca  []byte
}

func (r reach) ClientConfig(path string) admissionregistrationv1.WebhookClientConfig {
	url := r.url + path
	return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: r.ca}
}

func (reach) Observe(string) {}

// gate waits as its function does.
type gate func(ctx context.Context, version catalog.Version) error

func (g gate) Wait(ctx context.Context, version catalog.Version) error { return g(ctx, version) }

// newController makes a controller with an enforcing webhook that refuses everything.
func newController(t *testing.T) (*webhookconfig.Controller, *declared) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(webhookconfig.ProbePath, webhookconfig.Probe())
	mux.HandleFunc(webhookconfig.EnforcePath+"/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "refused", http.StatusTeapot) })
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	reached := reach{server.URL, ca}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "system-"}}
	namespace, err := barePlane(t).api.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d := &declared{}
	c := &webhookconfig.Controller{
		Client: barePlane(t).api, Catalog: d, Kinds: d, Server: reached,
		Policies: gate(func(context.Context, catalog.Version) error { return nil }),
		Own:      validate.OwnKinds{Server: reached, Username: "nobody", SystemNamespace: "bursar-system"},
		Username: "nobody", SystemNamespace: namespace.Name, Log: logr.Discard(),
	}
	t.Cleanup(func() { deleteConfigurations(t) })
	return c, d
}

func deleteConfigurations(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	registrations := barePlane(t).api.AdmissionregistrationV1()
	for _, err := range []error{
		registrations.ValidatingWebhookConfigurations().Delete(ctx, "bursar", metav1.DeleteOptions{}),
		registrations.MutatingWebhookConfigurations().Delete(ctx, "bursar", metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}

// updates counts the requests to update webhook configurations, including those without a change.
var updates atomic.Int64

type countingTransport struct{ http.RoundTripper }

func (c countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "webhookconfigurations") {
		updates.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// isAsked reports whether the API server calls the enforcing webhook for a create of a ConfigMap.
func isAsked(t *testing.T) bool {
	t.Helper()
	_, err := barePlane(t).api.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err != nil
}

func mustSync(t *testing.T, c *webhookconfig.Controller) {
	t.Helper()
	if err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestSyncedMeansAsked changes the protected kinds again and again. The very first create after the return of Sync must
// follow the change.
func TestSyncedMeansAsked(t *testing.T) {
	c, d := newController(t)
	for n := range 20 {
		protect := n%2 == 0
		if d.set(); protect {
			d.set(configMapTrigger)
		}
		if d.isInEffect(c) {
			t.Fatalf("round %d: what was declared after the last Sync is in effect before the next", n)
		}
		mustSync(t, c)
		if got := isAsked(t); got != protect {
			t.Fatalf("round %d: the webhook is asked: %t, want %t at once after Sync", n, got, protect)
		}
		if d.isInEffect(c) != protect {
			t.Fatalf("round %d: InEffect is %t", n, !protect)
		}
	}
}

// TestNothingIsTakenBack has a leader know an older version than the one before it. The leader waits until it knows the
// same version.
func TestNothingIsTakenBack(t *testing.T) {
	before, d := newController(t)
	d.set(configMapTrigger)
	mustSync(t, before)
	after, behind := newController(t)
	after.Policies = gate(func(_ context.Context, version catalog.Version) error {
		if version != d.Protected().Version {
			t.Errorf("it waits for version %s, want %s", version, d.Protected().Version)
		}
		behind.set(configMapTrigger)
		return nil
	})
	mustSync(t, after)
	if !isAsked(t) {
		t.Error("creates are not checked any more")
	}
	after.Policies = gate(func(context.Context, catalog.Version) error { return errors.New("it is not heard of") })
	behind.set()
	if err := after.Sync(t.Context()); err == nil || !isAsked(t) {
		t.Errorf("without knowing of as much, Sync says %v, and creates are checked: %t", err, isAsked(t))
	}
}

// TestNothingNewerIsReplaced has a leader stand still after its beginning, while another one publishes an authority.
// Only the next attempt stores the first leader's configuration.
func TestNothingNewerIsReplaced(t *testing.T) {
	registrations := barePlane(t).api.AdmissionregistrationV1()
	published := webhookconfig.Published{Client: barePlane(t).api}
	newer := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("newer")})
	for name, publish := range map[string]func(ctx context.Context) error{
		"validating": func(ctx context.Context) error {
			stored, err := registrations.ValidatingWebhookConfigurations().Get(ctx, "bursar", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for i := range stored.Webhooks {
				stored.Webhooks[i].ClientConfig.CABundle = newer
			}
			_, err = registrations.ValidatingWebhookConfigurations().Update(ctx, stored, metav1.UpdateOptions{})
			return err
		},
		"mutating": func(ctx context.Context) error {
			stored, err := registrations.MutatingWebhookConfigurations().Get(ctx, "bursar", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for i := range stored.Webhooks {
				stored.Webhooks[i].ClientConfig.CABundle = newer
			}
			_, err = registrations.MutatingWebhookConfigurations().Update(ctx, stored, metav1.UpdateOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, d := newController(t)
			d.set(configMapTrigger)
			mustSync(t, before)
			after, d := newController(t)
			d.set(configMapTrigger)
			after.Policies = gate(func(ctx context.Context, _ catalog.Version) error { return publish(ctx) })
			if err := after.Sync(t.Context()); !apierrors.IsConflict(err) {
				t.Errorf("Sync says %v, want a conflict", err)
			}
			isNewer := func(bundle []byte) bool { return bytes.Equal(bundle, newer) }
			if bundles, err := published.Authorities(t.Context()); err != nil || !slices.ContainsFunc(bundles, isNewer) {
				t.Errorf("the authority that was published is gone: %v", err)
			}
			after.Policies = before.Policies
			mustSync(t, after)
			if bundles, err := published.Authorities(t.Context()); err != nil || slices.ContainsFunc(bundles, isNewer) {
				t.Errorf("the next Sync does not bring both in step: %v", err)
			}
		})
	}
}

func TestSyncWritesOnlyDifferences(t *testing.T) {
	c, d := newController(t)
	d.set(configMapTrigger)
	mustSync(t, c)
	before := updates.Load()
	mustSync(t, c)
	if wrote := updates.Load() - before; wrote != 0 {
		t.Errorf("a second Sync made %d updates, want none: nothing is different", wrote)
	}
	d.set()
	mustSync(t, c)
	if wrote := updates.Load() - before; wrote != 1 {
		t.Errorf("a Sync without policies made %d updates, want 1: only the validating webhooks are different", wrote)
	}
}

// TestSyncUndoesEdits adds a selector. A comparison of only the wanted fields would miss this edit.
func TestSyncUndoesEdits(t *testing.T) {
	c, d := newController(t)
	d.set(configMapTrigger)
	mustSync(t, c)
	configurations := barePlane(t).api.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	stored, err := configurations.Get(t.Context(), "bursar", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range stored.Webhooks {
		if stored.Webhooks[i].Name == "enforce.quota.miloapis.com" {
			stored.Webhooks[i].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"matches": "nothing"}}
		}
	}
	if _, err := configurations.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the edit takes effect", func() bool { return !isAsked(t) })
	mustSync(t, c)
	waitFor(t, "the edit is undone", func() bool { return isAsked(t) })
}

func TestDeletedConfigurationComesBack(t *testing.T) {
	c, d := newController(t)
	d.set(configMapTrigger)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	waitFor(t, "the configuration is in effect", func() bool { return d.isInEffect(c) })
	deleteConfigurations(t)
	waitFor(t, "both configurations are back", func() bool {
		_, validating := barePlane(t).api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "bursar", metav1.GetOptions{})
		_, mutating := barePlane(t).api.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "bursar", metav1.GetOptions{})
		return validating == nil && mutating == nil
	})
	waitFor(t, "creates are checked again", func() bool { return isAsked(t) })
	cancel()
	if err := await.End(func() error { return <-done }); err != nil {
		t.Errorf("Run returned %v, want nil when it is stopped", err)
	}
}

func waitFor(t *testing.T, what string, f func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, promptly, true, func(context.Context) (bool, error) { return f(), nil })
	if err != nil {
		t.Fatalf("not within %s: %s", promptly, what)
	}
}
