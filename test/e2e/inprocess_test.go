package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/bursar/bursar/internal/kube/inprocess"
	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
)

// TestWebhookInProcess has an API server call a webhook without a listener, at a URL and as a Service. The reviews are
// of a core kind and of a custom one. Only the handler in its process can answer.
func TestWebhookInProcess(t *testing.T) {
	const refusal = "denied in process"
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), apiextensionsv1.AddToScheme(types)); err != nil {
		t.Fatal(err)
	}
	handler := &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		return admission.Denied(refusal)
	})}
	for _, tt := range []struct {
		name, host string
		config     admissionregistrationv1.WebhookClientConfig
	}{
		{"url", "127.0.0.1:1", admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/review")}},
		{"service", "nowhere.default.svc:443", admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "nowhere", Path: new("/review")},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			webhooks := inprocess.New(tt.host)
			webhooks.Handle(handler, testr.New(t))
			p := runPlane(t, apiserver.Options{DataDir: t.TempDir(), Webhooks: webhooks})
			api, err := client.New(p.Config(), client.Options{Scheme: types})
			if err != nil {
				t.Fatal(err)
			}
			if err := platform.Install(t.Context(), api); err != nil {
				t.Fatal(err)
			}
			if err := api.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: "refuser"},
				Webhooks: []admissionregistrationv1.ValidatingWebhook{{
					Name: "refuser.example.com", ClientConfig: tt.config,
					SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
					Rules: []admissionregistrationv1.RuleWithOperations{{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{"", platform.Group}, APIVersions: []string{"*"}, Resources: []string{"configmaps", "organizations"}},
					}},
				}},
			}); err != nil {
				t.Fatal(err)
			}
			organization := &unstructured.Unstructured{}
			organization.SetGroupVersionKind(schema.GroupVersionKind{Group: platform.Group, Version: "v1", Kind: platform.Kind})
			organization.SetName("any")
			for _, object := range []client.Object{
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "any-", Namespace: "default"}},
				organization,
			} {
				await.NoError(t, time.Minute, func() error {
					err := api.Create(t.Context(), object, client.DryRunAll)
					if err == nil {
						return errors.New("the webhook was not called")
					}
					if !strings.Contains(err.Error(), refusal) {
						t.Fatal(err)
					}
					return nil
				})
			}
		})
	}
}
