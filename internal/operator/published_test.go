package operator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// A replica is ready once every webhook that is stored is checked by the authority of its certificate.
func TestPublished(t *testing.T) {
	served, err := newSelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	other, err := newSelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	both := append(append([]byte{}, other.Bundle()...), served.Bundle()...)
	for name, tt := range map[string]struct {
		reason  string
		bundles [][]byte
		want    bool
	}{
		"no webhooks":         {"nobody calls", nil, true},
		"another authority":   {"calls would fail", [][]byte{other.Bundle()}, false},
		"both":                {"one of them is enough", [][]byte{both}, true},
		"of one webhook only": {"calls of the other would fail", [][]byte{both, other.Bundle()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				stored := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "bursar"}}
				for _, bundle := range tt.bundles {
					stored.Webhooks = append(stored.Webhooks, admissionregistrationv1.ValidatingWebhook{
						ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: bundle},
					})
				}
				api := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
				if tt.bundles != nil {
					if _, err := api.Create(t.Context(), stored, metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				p := &parts{models: &models{}, server: &webhookServer{certificates: served}}
				isPublished := p.published(&Operator{client: client, options: Options{Log: logr.Discard()}})
				if got := isPublished(t.Context()); got != tt.want {
					t.Errorf("%s: got %t, want %t", tt.reason, got, tt.want)
				}
				for i := range stored.Webhooks {
					stored.Webhooks[i].ClientConfig.CABundle = both
				}
				if tt.bundles != nil {
					if _, err := api.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(publishedInterval)
				if !isPublished(t.Context()) {
					t.Error("the authority is published now")
				}
			})
		})
	}
}
