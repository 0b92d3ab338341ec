package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	admissionregistrationclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"

	"github.com/bursar/bursar/internal/catalog"
)

const (
	// configurationName is the name of both webhook configurations.
	configurationName = "bursar"
	// probeMark is how the probe's handler is told from every other refusal.
	probeMark = "bursar has been observed"
	// probeTimeout bounds how long the API server may take to observe a configuration.
	probeTimeout = 10 * time.Second
	retryTime    = time.Second
)

// Kinds resolves versioned kinds to resources.
type Kinds interface {
	VersionedResourceFor(ctx context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error)
}

// Controller keeps the webhook configurations. Its fields are set once, before use.
type Controller struct {
	Client  kubernetes.Interface
	Catalog *catalog.Catalog
	Kinds   Kinds
	// Static and Mutating are the webhooks on Bursar's own kinds.
	Static   []admissionregistrationv1.ValidatingWebhook
	Mutating []admissionregistrationv1.MutatingWebhook
	// ClientConfig tells the API server how to reach a path of the webhook server.
	ClientConfig    func(path string) admissionregistrationv1.WebhookClientConfig
	Username        string
	SystemNamespace string
	// OnSync is called after another set of kinds came into effect.
	OnSync func()
	Log    logr.Logger

	wake chan struct{}
	once sync.Once

	mu       sync.Mutex
	inEffect map[schema.GroupVersionKind]bool
}

// Trigger asks for the configurations to be brought in step soon.
func (c *Controller) Trigger() {
	select {
	case c.wakeup() <- struct{}{}:
	default:
	}
}

func (c *Controller) wakeup() chan struct{} {
	c.once.Do(func() { c.wake = make(chan struct{}, 1) })
	return c.wake
}

// InEffect tells whether the API server asks about creates of that kind.
func (c *Controller) InEffect(kind schema.GroupVersionKind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inEffect[kind]
}

// Synced tells whether the API server has observed what the policies required at some time.
func (c *Controller) Synced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inEffect != nil
}

// Run keeps the configurations in step until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for {
		retry := time.After(time.Hour)
		if err := c.Sync(ctx); err != nil && ctx.Err() == nil {
			c.Log.Error(err, "will try again")
			retry = time.After(retryTime)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.wakeup():
		case <-retry:
		}
	}
}

// Sync brings the configurations in step and returns once the API server works with them.
func (c *Controller) Sync(ctx context.Context) error {
	webhooks, kinds, hash, err := c.desired(ctx)
	if err != nil {
		return fmt.Errorf("find the kinds that policies protect: %w", err)
	}
	api := c.Client.AdmissionregistrationV1()
	if err := applyMutating(ctx, api.MutatingWebhookConfigurations(), c.Mutating); err != nil {
		return fmt.Errorf("apply MutatingWebhookConfiguration %s: %w", configurationName, err)
	}
	if err := applyValidating(ctx, api.ValidatingWebhookConfigurations(), webhooks); err != nil {
		return fmt.Errorf("apply ValidatingWebhookConfiguration %s: %w", configurationName, err)
	}
	if err := c.waitObserved(ctx, hash); err != nil {
		return fmt.Errorf("wait for the API server to observe the webhooks: %w", err)
	}
	c.mu.Lock()
	same := c.inEffect != nil && maps.Equal(kinds, c.inEffect)
	c.inEffect = kinds
	c.mu.Unlock()
	if !same && c.OnSync != nil {
		c.OnSync()
	}
	return nil
}

func applyValidating(ctx context.Context, api admissionregistrationclient.ValidatingWebhookConfigurationInterface, webhooks []admissionregistrationv1.ValidatingWebhook) error {
	stored, err := api.Get(ctx, configurationName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = api.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: configurationName}, Webhooks: webhooks,
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil || equality.Semantic.DeepDerivative(webhooks, stored.Webhooks) && len(webhooks) == len(stored.Webhooks) {
		return err
	}
	stored.Webhooks = webhooks
	_, err = api.Update(ctx, stored, metav1.UpdateOptions{})
	return err
}

func applyMutating(ctx context.Context, api admissionregistrationclient.MutatingWebhookConfigurationInterface, webhooks []admissionregistrationv1.MutatingWebhook) error {
	stored, err := api.Get(ctx, configurationName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = api.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: configurationName}, Webhooks: webhooks,
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil || equality.Semantic.DeepDerivative(webhooks, stored.Webhooks) && len(webhooks) == len(stored.Webhooks) {
		return err
	}
	stored.Webhooks = webhooks
	_, err = api.Update(ctx, stored, metav1.UpdateOptions{})
	return err
}

// waitObserved probes until the probe for this content answers.
func (c *Controller) waitObserved(ctx context.Context, hash string) error {
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "probe-", Namespace: c.SystemNamespace, Labels: map[string]string{probeLabel: hash},
	}}
	backoff := wait.Backoff{Duration: 2 * time.Millisecond, Factor: 1.5, Cap: 100 * time.Millisecond, Steps: 1 << 20}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		_, last = c.Client.CoreV1().ConfigMaps(c.SystemNamespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return last != nil && strings.Contains(last.Error(), probeMark), nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%w (the last probe was answered with: %w)", err, last)
	}
	return err
}

// Probe answers the probes that the API server passes on.
func Probe() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "not an AdmissionReview with a request", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: probeMark,
		}}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&review) // a client that is gone is no error of ours
	})
}
