package uninstall

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bursar/bursar/internal/naming"
)

// TestCertificateSecret proves that the operator's Secret has the given name, because its configuration may name any. A
// Secret of the default name then belongs to another client.
func TestCertificateSecret(t *testing.T) {
	var stored []runtime.Object
	for _, name := range []string{"issued", "issued" + naming.CallersSuffix, naming.CertificateSecret} {
		stored = append(stored, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "quota", Name: name}})
	}
	api := fake.NewClientset(stored...)
	u := &uninstaller{Options: Options{SystemNamespace: "quota", CertificateSecret: "issued"}, client: api}
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	for name, want := range map[string]bool{"issued": true, "issued" + naming.CallersSuffix: true, naming.CertificateSecret: false} {
		if got := u.isOwn(secrets, name); got != want {
			t.Errorf("Secret %s counts as the operator's: %v, want %v", name, got, want)
		}
	}
	if err := u.removeOwn(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := api.CoreV1().Secrets("quota").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, secret := range left.Items {
		names = append(names, secret.Name)
	}
	if want := []string{naming.CertificateSecret}; !slices.Equal(names, want) {
		t.Errorf("%v are left, want %v", names, want)
	}
}
