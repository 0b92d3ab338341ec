package importer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// TestUnservedKinds leaves out limits of kinds that the server does not serve: their policies would never be ready.
func TestUnservedKinds(t *testing.T) {
	m := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
	m.Add(corev1.SchemeGroupVersion.WithKind("Secret"), apimeta.RESTScopeNamespace)
	r := fromResourceQuotas(parsed[corev1.ResourceQuota](t,
		`{metadata: {name: a, namespace: shop}, spec: {hard: {count/secrets: 2, pods: 4, services: 3}}}`,
		`{metadata: {name: a, namespace: mall}, spec: {hard: {pods: 4}}}`))
	plan := build("resourcequota", m, r.limits, newEarlier(), nil)
	want := []string{"Audit Secret charges count/secrets", "shop is limited in count/secrets", "shop/imported-resourcequota gives count/secrets=2"}
	if diff := cmp.Diff(want, outline(plan)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const why = "the server does not serve it, so there is nothing to limit: import again once it does"
	if diff := cmp.Diff([]Note{{"Pod", why}, {"Service", why}}, plan.Notes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestEnforcedLimitOfUnservedKind keeps a limit that Bursar enforces while its API server is down: the import fails,
// and changes nothing.
func TestEnforcedLimitOfUnservedKind(t *testing.T) {
	r := fromResourceQuotas(parsed[corev1.ResourceQuota](t, `{metadata: {name: a, namespace: shop}, spec: {hard: {pods: 4, count/widgets.example.com: 3}}}`))
	before := newEarlier()
	for _, resourceType := range []string{"resourcequota/pods", "resourcequota/count/widgets.example.com"} {
		before.policies[resourceType] = &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: resourceType}, Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{Spec: quotav1alpha1.ResourceClaimTemplateSpec{
				Requests: []quotav1alpha1.ResourceRequestTemplate{{ResourceType: resourceType, Amount: 1}},
			}}},
		}}
	}
	i := &importer{Options: Options{From: "resourcequota"}, mapper: apimeta.NewDefaultRESTMapper(nil), target: &cluster{namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}}}
	_, err := i.plan(r, before)
	for _, want := range []string{"count/widgets.example.com of ResourceQuota shop/a", "pods of ResourceQuota shop/a", "import again"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestEnforcedNames checks which enforced limits stop an import: those of kinds that the server may serve again, and
// not those of names that Kubernetes never counts.
func TestEnforcedNames(t *testing.T) {
	before := newEarlier()
	before.policies["all"] = &quotav1alpha1.ClaimCreationPolicy{}
	for _, name := range []string{"count/deployments", "count/unknown.example.com"} {
		spec := &before.policies["all"].Spec.Target.ResourceClaimTemplate.Spec
		spec.Requests = append(spec.Requests, quotav1alpha1.ResourceRequestTemplate{ResourceType: "resourcequota/" + name})
	}
	before.policies["all"].Name = "all"
	r := fromResourceQuotas(parsed[corev1.ResourceQuota](t, `{metadata: {name: a, namespace: shop}, spec: {hard: {count/deployments: 2, count/unknown.example.com: 2}}}`))
	plan := build("resourcequota", mapper(), r.limits, before, nil)
	if diff := cmp.Diff([]string{"count/unknown.example.com of ResourceQuota shop/a"}, plan.unserved); diff != "" {
		t.Errorf("these stop the import (-want +got):\n%s", diff)
	}
}
