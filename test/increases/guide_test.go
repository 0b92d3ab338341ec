package increases

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	"github.com/bursar/bursar/test/guide"
)

// The README of the example says what to type, and what comes of it. Namespaces of others have no part in it.
func TestGuide(t *testing.T) {
	w := &world{T: t, name: "guide"}
	for _, name := range []string{"team-a", "team-b", "team-c"} {
		w.cleanUp(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		t.Cleanup(func() {
			if err := admin.DeleteAllOf(context.Background(), &openmcpv1alpha1.QuotaIncrease{}, client.InNamespace(name)); err != nil {
				t.Error(err)
			}
		})
	}
	w.cleanUp(&openmcpv1alpha1.QuotaServiceConfig{ObjectMeta: metav1.ObjectMeta{Name: "platform"}})
	if texts := guide.Follow(t, "examples/quota-increases/README.md", kubeconfig); texts != 3 {
		t.Errorf("%d outputs are told, want 3", texts)
	}
}
