package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bursar/bursar/internal/cli/why"
	"github.com/bursar/bursar/internal/config"
)

// A tenant may read its quota in another namespace than that of its objects. A denial names that namespace.
func TestWhyFindsQuotaElsewhere(t *testing.T) {
	t.Parallel()
	w := newTenantWorld(t, "bursar-tenant-admin", "edit")
	w.bind(w.tenant.user, "bursar-tenant-viewer", config.DefaultSystemNamespace)
	w.waitMay(w.tenant.user, attributesOf("effectiveresourcegrants.quota.miloapis.com", "list", config.DefaultSystemNamespace))
	w.limitSeenBy(w.api, 2)
	object := w.configMap("b")
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	must(t, err)
	reader := why.Reader{API: w.api, Namespace: w.name}
	e, err := reader.Object(t.Context(), &unstructured.Unstructured{Object: fields}, false)
	must(t, err)
	if len(e.Payments) != 1 || e.Payments[0].IsHidden || len(e.Payments[0].Types) != 1 {
		t.Fatalf("got %+v, want the quota of the consumer", e)
	}
	p := e.Payments[0]
	if p.Types[0].Limit != "2 maps" || !strings.Contains(p.Ask, "-n "+config.DefaultSystemNamespace) {
		t.Errorf("got the limit %q and the advice %q, want 2 maps, and a request in namespace %s", p.Types[0].Limit, p.Ask, config.DefaultSystemNamespace)
	}
}
