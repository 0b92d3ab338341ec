package importer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestUnservedKinds leaves out limits of kinds that the server does not serve: their policies would never be ready.
func TestUnservedKinds(t *testing.T) {
	m := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
	m.Add(corev1.SchemeGroupVersion.WithKind("Secret"), apimeta.RESTScopeNamespace)
	r := fromResourceQuotas(parsed[corev1.ResourceQuota](t,
		`{metadata: {name: a, namespace: shop}, spec: {hard: {count/secrets: 2, pods: 4, services: 3}}}`,
		`{metadata: {name: a, namespace: mall}, spec: {hard: {pods: 4}}}`))
	plan := build("resourcequota", m, r.limits, newEarlier())
	want := []string{"Audit Secret charges count/secrets", "shop is limited in count/secrets", "shop/imported-resourcequota gives count/secrets=2"}
	if diff := cmp.Diff(want, outline(plan)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const why = "the server does not serve it, so there is nothing to limit: import again once it does"
	if diff := cmp.Diff([]Note{{"Pod", why}, {"Service", why}}, plan.Notes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
