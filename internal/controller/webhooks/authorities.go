package webhooks

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Authorities returns the bundles, in PEM, by one of which API servers check whoever answers a webhook as it is
// stored. There are none before webhooks are.
func Authorities(ctx context.Context, client kubernetes.Interface) ([][]byte, error) {
	api := client.AdmissionregistrationV1()
	validating, err := api.ValidatingWebhookConfigurations().Get(ctx, configurationName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", configurationName, err)
	}
	mutating, err := api.MutatingWebhookConfigurations().Get(ctx, configurationName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read MutatingWebhookConfiguration %s: %w", configurationName, err)
	}
	var bundles [][]byte
	for i := range validating.Webhooks {
		bundles = append(bundles, validating.Webhooks[i].ClientConfig.CABundle)
	}
	for i := range mutating.Webhooks {
		bundles = append(bundles, mutating.Webhooks[i].ClientConfig.CABundle)
	}
	return bundles, nil
}
