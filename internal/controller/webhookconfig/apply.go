package webhookconfig

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bursar/bursar/internal/catalog"
)

// configurations are both stored configurations. A missing one has no resource version.
type configurations struct {
	validating *admissionregistrationv1.ValidatingWebhookConfiguration
	mutating   *admissionregistrationv1.MutatingWebhookConfiguration
}

// read returns the stored configurations.
func read(ctx context.Context, client kubernetes.Interface) (stored configurations, err error) {
	api := client.AdmissionregistrationV1()
	stored.validating, err = api.ValidatingWebhookConfigurations().Get(ctx, configurationName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return stored, fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", configurationName, err)
	}
	stored.mutating, err = api.MutatingWebhookConfigurations().Get(ctx, configurationName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return stored, fmt.Errorf("read MutatingWebhookConfiguration %s: %w", configurationName, err)
	}
	return stored, nil
}

// catchUp waits until the catalog knows everything behind the stored configuration. A new leader, or one after a pause,
// may know less than its predecessor, and must not revoke the readiness of policies.
func (c *Controller) catchUp(ctx context.Context, stored configurations) error {
	if stored.validating.ResourceVersion == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	for _, w := range stored.validating.Webhooks {
		if err := c.catchUpWith(ctx, w); err != nil {
			return fmt.Errorf("replace ValidatingWebhookConfiguration %s: %w", configurationName, err)
		}
	}
	return nil
}

// catchUpWith waits for the declarations behind a published webhook.
func (c *Controller) catchUpWith(ctx context.Context, w admissionregistrationv1.ValidatingWebhook) error {
	switch {
	case strings.HasPrefix(w.Name, enforceName), strings.HasPrefix(w.Name, adviseName):
		if version, err := catalog.ParseVersion(versionIn(w)); err == nil {
			return c.Policies.Wait(ctx, version)
		}
	case strings.HasPrefix(w.Name, quotaName):
		if version, err := catalog.ParseDigest(versionIn(w)); err == nil {
			return c.Allocations.Wait(ctx, version)
		}
	}
	return nil
}

// apply replaces the stored configurations and waits until the API server uses them.
func (c *Controller) apply(ctx context.Context, stored configurations, desired validating) error {
	mutating, mutatingHash := c.desiredMutating()
	api := c.Client.AdmissionregistrationV1()
	mutatingVersion, err := store(ctx, api.MutatingWebhookConfigurations(), stored.mutating, replace(&stored.mutating.Webhooks, mutating))
	if err != nil {
		return fmt.Errorf("apply MutatingWebhookConfiguration %s: %w", configurationName, err)
	}
	version, err := store(ctx, api.ValidatingWebhookConfigurations(), stored.validating, replace(&stored.validating.Webhooks, desired.webhooks))
	if err != nil {
		return fmt.Errorf("apply ValidatingWebhookConfiguration %s: %w", configurationName, err)
	}
	for _, hash := range []string{mutatingHash, desired.hash} {
		if err := c.waitObserved(ctx, hash); err != nil {
			return fmt.Errorf("wait for the API server to observe the webhooks: %w", err)
		}
	}
	for _, content := range []string{contentOf(mutatingHash, mutatingVersion), contentOf(desired.hash, version)} {
		if err := c.waitReported(ctx, content); err != nil {
			return err
		}
	}
	return nil
}

// versionIn returns the last segment of a webhook's path.
func versionIn(w admissionregistrationv1.ValidatingWebhook) string {
	return path.Base(pathOf(w.ClientConfig))
}

// pathOf returns the path of a webhook call, or "" if there is none.
func pathOf(config admissionregistrationv1.WebhookClientConfig) string {
	switch {
	case config.Service != nil && config.Service.Path != nil:
		return *config.Service.Path
	case config.URL != nil:
		if at, err := url.Parse(*config.URL); err == nil {
			return at.Path
		}
	}
	return ""
}

// writer is the API of one kind of configuration.
type writer[T any] interface {
	Create(ctx context.Context, configuration T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, configuration T, options metav1.UpdateOptions) (T, error)
}

// store creates a configuration or, with isChanged, updates it. It returns the new resource version, or an error after
// a conflicting write.
func store[T metav1.Object](ctx context.Context, api writer[T], configuration T, isChanged bool) (version string, err error) {
	switch {
	case configuration.GetResourceVersion() == "":
		configuration.SetName(configurationName)
		configuration, err = api.Create(ctx, configuration, metav1.CreateOptions{})
	case isChanged:
		configuration, err = api.Update(ctx, configuration, metav1.UpdateOptions{})
	}
	if err != nil {
		return "", err
	}
	return configuration.GetResourceVersion(), nil
}

// replace sets the desired webhooks, and reports whether they differ from the previous ones.
func replace[W any](webhooks *[]W, desired []W) bool {
	if equality.Semantic.DeepEqual(*webhooks, desired) {
		return false
	}
	*webhooks = desired
	return true
}

// completeValidating sets the API server's defaults, to make stored and desired webhooks comparable.
func completeValidating(w *admissionregistrationv1.ValidatingWebhook) {
	completeSelectors(&w.NamespaceSelector, &w.ObjectSelector)
	completePort(&w.ClientConfig)
}

func completeMutating(w *admissionregistrationv1.MutatingWebhook) {
	completeSelectors(&w.NamespaceSelector, &w.ObjectSelector)
	completePort(&w.ClientConfig)
}

func completeSelectors(selectors ...**metav1.LabelSelector) {
	for _, selector := range selectors {
		if *selector == nil {
			*selector = &metav1.LabelSelector{}
		}
	}
}

func completePort(config *admissionregistrationv1.WebhookClientConfig) {
	if config.Service == nil || config.Service.Port != nil {
		return
	}
	service := *config.Service
	service.Port = new(int32(servicePort))
	config.Service = &service
}
