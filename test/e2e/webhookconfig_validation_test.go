package e2e

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	admissionregistrationdefaults "k8s.io/kubernetes/pkg/apis/admissionregistration/v1"
	"k8s.io/kubernetes/pkg/apis/admissionregistration/validation"

	"github.com/bursar/bursar/internal/admission/validate"
)

// TestConfigurationIsValid runs the API server's own validation on the configurations, including match conditions.
func TestConfigurationIsValid(t *testing.T) {
	t.Parallel()
	client := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:9443" + path)}
	}
	scheme := runtime.NewScheme()
	if err := admissionregistrationdefaults.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: validate.ValidatingWebhooks(client, "system:serviceaccount:bursar-system:bursar", "bursar-system")}
	validating.Name = "bursar"
	scheme.Default(validating)
	internalValidating := &admissionregistration.ValidatingWebhookConfiguration{}
	if err := scheme.Convert(validating, internalValidating, nil); err != nil {
		t.Fatal(err)
	}
	if errs := validation.ValidateValidatingWebhookConfiguration(internalValidating); len(errs) > 0 {
		t.Errorf("validating webhook: %v", errs.ToAggregate())
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: validate.MutatingWebhooks(client, "system:serviceaccount:bursar-system:bursar")}
	mutating.Name = "bursar"
	scheme.Default(mutating)
	internalMutating := &admissionregistration.MutatingWebhookConfiguration{}
	if err := scheme.Convert(mutating, internalMutating, nil); err != nil {
		t.Fatal(err)
	}
	if errs := validation.ValidateMutatingWebhookConfiguration(internalMutating); len(errs) > 0 {
		t.Errorf("mutating webhook: %v", errs.ToAggregate())
	}
}
