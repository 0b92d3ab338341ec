package uninstall

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhookConfiguration is the name of both webhook configurations.
const webhookConfiguration = "bursar"

// stopEnforcement deletes the webhook configurations. The API server then no longer calls Bursar.
func (u *uninstaller) stopEnforcement(ctx context.Context) error {
	api := u.client.AdmissionregistrationV1()
	configurations := []struct {
		kind   string
		get    func() error
		delete func() error
	}{
		{"ValidatingWebhookConfiguration", func() error {
			_, err := api.ValidatingWebhookConfigurations().Get(ctx, webhookConfiguration, metav1.GetOptions{})
			return err
		}, func() error {
			return api.ValidatingWebhookConfigurations().Delete(ctx, webhookConfiguration, metav1.DeleteOptions{})
		}},
		{"MutatingWebhookConfiguration", func() error {
			_, err := api.MutatingWebhookConfigurations().Get(ctx, webhookConfiguration, metav1.GetOptions{})
			return err
		}, func() error {
			return api.MutatingWebhookConfigurations().Delete(ctx, webhookConfiguration, metav1.DeleteOptions{})
		}},
	}
	for _, configuration := range configurations {
		remove := configuration.delete
		if u.DryRun {
			remove = configuration.get
		}
		err := remove()
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("delete %s %s: %w", configuration.kind, webhookConfiguration, err)
		}
		u.report("deleted", "delete", "%s %s", configuration.kind, webhookConfiguration)
	}
	return nil
}

// checkSilent makes sure that no operator has restored its webhooks, as one without a Lease does.
func (u *uninstaller) checkSilent(ctx context.Context) error {
	_, err := u.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, webhookConfiguration, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", webhookConfiguration, err)
	default:
		return u.stillRuns("it has restored ValidatingWebhookConfiguration " + webhookConfiguration)
	}
}
