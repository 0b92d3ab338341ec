package webhooks

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bursar/bursar/internal/catalog"
)

// apply stores both configurations and waits until the API server works with them.
func (c *Controller) apply(ctx context.Context, wanted validating) error {
	mutating, mutatingHash := c.desiredMutating()
	api, name := c.Client.AdmissionregistrationV1(), metav1.ObjectMeta{Name: configurationName}
	mutatingVersion, err := store(ctx, api.MutatingWebhookConfigurations(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: name, Webhooks: mutating},
		func(stored *admissionregistrationv1.MutatingWebhookConfiguration) bool {
			return replace(&stored.Webhooks, mutating)
		})
	if err != nil {
		return fmt.Errorf("apply MutatingWebhookConfiguration %s: %w", configurationName, err)
	}
	var isOvertaken bool
	version, err := store(ctx, api.ValidatingWebhookConfigurations(), &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: name, Webhooks: wanted.webhooks},
		func(stored *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
			isOvertaken = publishedBy(stored.Webhooks) != wanted.replaces
			return !isOvertaken && replace(&stored.Webhooks, wanted.webhooks)
		})
	if err == nil && isOvertaken {
		err = errOvertaken
	}
	if err != nil {
		return fmt.Errorf("apply ValidatingWebhookConfiguration %s: %w", configurationName, err)
	}
	for _, hash := range []string{mutatingHash, wanted.hash} {
		if err := c.waitObserved(ctx, hash); err != nil {
			return fmt.Errorf("wait for the API server to observe the webhooks: %w", err)
		}
	}
	for _, content := range []string{contentOf(mutatingHash, mutatingVersion), contentOf(wanted.hash, version)} {
		if err := c.waitReported(ctx, content); err != nil {
			return err
		}
	}
	return nil
}

// errOvertaken says that a replica which led before, or leads now, was quicker.
var errOvertaken = errors.New("another replica has just stored another one")

// catchUp waits until the catalog knows of all by which the stored configuration was made, and returns that
// version. A leader that has just begun, or has stood still, may know of less than the one before it, and must not
// take back what is Ready.
func (c *Controller) catchUp(ctx context.Context) (catalog.Version, error) {
	stored, err := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, configurationName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return catalog.Version{}, nil
	}
	if err != nil {
		return catalog.Version{}, fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", configurationName, err)
	}
	version := publishedBy(stored.Webhooks)
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	if err := c.Current(ctx, version); err != nil {
		return version, fmt.Errorf("replace ValidatingWebhookConfiguration %s: %w", configurationName, err)
	}
	return version, nil
}

// publishedBy returns the version in the paths of webhooks, or that at which nothing was declared.
func publishedBy(webhooks []admissionregistrationv1.ValidatingWebhook) catalog.Version {
	for _, w := range webhooks {
		if !strings.HasPrefix(w.Name, enforceName) && !strings.HasPrefix(w.Name, adviseName) {
			continue
		}
		var at string
		switch {
		case w.ClientConfig.Service != nil && w.ClientConfig.Service.Path != nil:
			at = *w.ClientConfig.Service.Path
		case w.ClientConfig.URL != nil:
			at = *w.ClientConfig.URL
		}
		if version, err := catalog.ParseVersion(path.Base(at)); err == nil {
			return version
		}
	}
	return catalog.Version{}
}

// configurations is the API of configurations of one of the two kinds.
type configurations[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, configuration T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, configuration T, options metav1.UpdateOptions) (T, error)
}

// store creates the wanted configuration, or updates the stored one, where change changes it. It returns
// the resource version of what is stored then.
func store[T metav1.Object](ctx context.Context, api configurations[T], wanted T, change func(stored T) bool) (version string, err error) {
	stored, err := api.Get(ctx, configurationName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		stored, err = api.Create(ctx, wanted, metav1.CreateOptions{})
	case err == nil && change(stored):
		stored, err = api.Update(ctx, stored, metav1.UpdateOptions{})
	}
	if err != nil {
		return "", err
	}
	return stored.GetResourceVersion(), nil
}

// replace tells whether webhooks were not the wanted ones before.
func replace[W any](webhooks *[]W, wanted []W) bool {
	if equality.Semantic.DeepEqual(*webhooks, wanted) {
		return false
	}
	*webhooks = wanted
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
