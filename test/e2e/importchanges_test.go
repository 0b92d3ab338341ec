package e2e

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/importer"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/test/platform"
)

// TestImportOfRemovedFields removes fields on the server of the former system. The next import removes them here, and
// leaves the label of an administrator.
func TestImportOfRemovedFields(t *testing.T) {
	t.Parallel()
	from, to := startTwo(t)
	declareEverything(t, from.Admin)
	o := importer.Options{Config: to.Config, SourceConfig: from.Config, From: "milo", SystemNamespace: config.DefaultSystemNamespace}
	run := func() {
		t.Helper()
		_, err := importer.Run(t.Context(), o)
		must(t, err)
	}
	policy, registration := &quotav1alpha1.ClaimCreationPolicy{}, &quotav1alpha1.ResourceRegistration{}
	read := func(api client.Client) {
		t.Helper()
		must(t, api.Get(t.Context(), client.ObjectKey{Name: "configmap"}, policy))
		must(t, api.Get(t.Context(), client.ObjectKey{Name: "maps"}, registration))
	}
	change := func(api client.Client, object client.Object, change func()) {
		t.Helper()
		eventually(t, func() error {
			must(t, api.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			change()
			return api.Update(t.Context(), object)
		})
	}
	read(from.Admin)
	kinds := registration.Spec.ClaimingResources
	change(from.Admin, policy, func() {
		policy.Annotations, policy.Spec.Disabled = map[string]string{"kubernetes.io/description": "x"}, true
		policy.Spec.Trigger.Constraints = []quotav1alpha1.ConditionExpression{{Expression: `trigger.metadata.name == "a"`}}
	})
	change(from.Admin, registration, func() {
		registration.Spec.ClaimingResources = append(registration.Spec.ClaimingResources, quotav1alpha1.ClaimingResource{Kind: "Endpoints"})
		registration.Spec.MaxPerConsumer = new(int64(500))
	})
	run()
	read(to.Admin)
	if !policy.Spec.Disabled || len(policy.Spec.Trigger.Constraints) != 1 || policy.Annotations["kubernetes.io/description"] != "x" || registration.Spec.MaxPerConsumer == nil {
		t.Fatalf("imported are %+v and %+v", policy, registration)
	}
	change(to.Admin, policy, func() {
		policy.Labels["example.com/own"] = "x"
	})

	change(from.Admin, policy, func() { policy.Annotations, policy.Spec.Disabled, policy.Spec.Trigger.Constraints = nil, false, nil })
	change(from.Admin, registration, func() { registration.Spec.ClaimingResources, registration.Spec.MaxPerConsumer = kinds, nil })
	run()
	read(to.Admin)
	if policy.Spec.Disabled || len(policy.Spec.Trigger.Constraints) != 0 || policy.Annotations["kubernetes.io/description"] != "" {
		t.Errorf("the policy keeps %+v with the annotations %v", policy.Spec, policy.Annotations)
	}
	if policy.Labels["example.com/own"] != "x" {
		t.Errorf("the administrator's label is lost: %v", policy.Labels)
	}
	if len(registration.Spec.ClaimingResources) != len(kinds) || registration.Spec.MaxPerConsumer != nil {
		t.Errorf("the registration keeps %+v", registration.Spec)
	}
	eventually(t, func() error { return platform.IsReady(t.Context(), to.Admin, policy) })
	before := []int64{policy.Generation, registration.Generation}
	run()
	read(to.Admin)
	if policy.Generation != before[0] || registration.Generation != before[1] {
		t.Errorf("without a change, an import writes")
	}
}
