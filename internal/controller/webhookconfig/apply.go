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

// configurations are both as they are stored. One that is not has no resource version.
type configurations struct {
	validating *admissionregistrationv1.ValidatingWebhookConfiguration
	mutating   *admissionregistrationv1.MutatingWebhookConfiguration
}

// read returns what is stored.
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

// catchUp waits until the catalog knows of all by which the stored configuration was made. A leader that has just
// begun, or has stood still, may know of less than the one before it, and must not take back what is Ready.
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

// catchUpWith waits for what was declared when a webhook was published.
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

// apply replaces what is stored and waits until the API server works with that.
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

// pathOf is the path by which the API server calls, or "" where none is given.
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

// writer is the API of configurations of one of the two kinds.
type writer[T any] interface {
	Create(ctx context.Context, configuration T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, configuration T, options metav1.UpdateOptions) (T, error)
}

// store creates a configuration or, where it was changed, updates what it was read from. It returns the resource
// version of what is stored then, or an error if another was stored since.
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

// replace tells whether webhooks were not the wanted ones before.
func replace[W any](webhooks *[]W, desired []W) bool {
	if equality.Semantic.DeepEqual(*webhooks, desired) {
		return false
	}
	*webhooks = desired
	return true
}

// completeValidating fills in what the API server does where nothing is said, so that what is
// stored can be compared with what is wanted.
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
