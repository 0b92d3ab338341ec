package webhooks

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionregistrationclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
)

// apply stores both configurations and waits until the API server works with them.
func (c *Controller) apply(ctx context.Context, wanted validating) error {
	mutating, mutatingHash := c.desiredMutating()
	api := c.Client.AdmissionregistrationV1()
	if err := applyMutating(ctx, api.MutatingWebhookConfigurations(), mutating); err != nil {
		return fmt.Errorf("apply MutatingWebhookConfiguration %s: %w", configurationName, err)
	}
	if err := applyValidating(ctx, api.ValidatingWebhookConfigurations(), wanted.webhooks); err != nil {
		return fmt.Errorf("apply ValidatingWebhookConfiguration %s: %w", configurationName, err)
	}
	for _, hash := range []string{mutatingHash, wanted.hash} {
		if err := c.waitObserved(ctx, hash); err != nil {
			return fmt.Errorf("wait for the API server to observe the webhooks: %w", err)
		}
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
	if err != nil || equality.Semantic.DeepEqual(webhooks, stored.Webhooks) {
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
	if err != nil || equality.Semantic.DeepEqual(webhooks, stored.Webhooks) {
		return err
	}
	stored.Webhooks = webhooks
	_, err = api.Update(ctx, stored, metav1.UpdateOptions{})
	return err
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
