package status

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	certutil "k8s.io/client-go/util/cert"
)

// TestCertificateSecret proves that the check reads the certificate from the given Secret, because the configuration
// may name any. The error for a wrong name shows how to give another.
func TestCertificateSecret(t *testing.T) {
	certificate, _, err := certutil.GenerateSelfSignedCertKey("bursar.example.com", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "quota", Name: "issued"}, Data: map[string][]byte{corev1.TLSCertKey: certificate},
	})
	tests := map[string]struct {
		secret string
		state  State
		want   string
	}{
		"the one that is named": {"issued", OK, "valid until 20"},
		"none of that name":     {"bursar-webhooks-tls", Unknown, `secrets "bursar-webhooks-tls" not found; if the configuration names another Secret, give its name with --certificate-secret`},
	}
	for name, tt := range tests {
		r := &reader{client: api, systemNamespace: "quota", certificateSecret: tt.secret, metricsErr: errors.New("no metrics")}
		if got := r.certificate(t.Context()); got.State != tt.state || !strings.Contains(got.Text, tt.want) {
			t.Errorf("%s: got %+v, want %s and %q", name, got, tt.state, tt.want)
		}
	}
}
