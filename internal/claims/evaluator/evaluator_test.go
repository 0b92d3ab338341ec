package evaluator

import (
	"context"
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

// everywhere has all namespaces.
type everywhere struct{}

func (everywhere) Active(context.Context, string) (bool, error) { return true, nil }
func (everywhere) Object(_ context.Context, name string) (map[string]any, error) {
	return map[string]any{"metadata": map[string]any{"name": name}}, nil
}

// evaluated evaluates a policy with the namespace in its template for an object.
func evaluated(t *testing.T, namespace string, object *unstructured.Unstructured) (*Claim, error) {
	t.Helper()
	kind := object.GroupVersionKind()
	consumer := quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Organization", Name: "acme"}
	registration := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: "t", ConsumerTypeRef: quotav1alpha1.ConsumerTypeRef{APIGroup: consumer.APIGroup, Kind: consumer.Kind},
		ClaimingResources: []quotav1alpha1.ClaimingResource{{APIGroup: kind.Group, Kind: kind.Kind}},
	}}
	apimeta.SetStatusCondition(&registration.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	known := catalog.New()
	known.SetRegistration(registration)
	errs := known.SetPolicy(&quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{Resource: quotav1alpha1.ClaimTriggerResource{APIVersion: object.GetAPIVersion(), Kind: kind.Kind}},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Namespace: namespace},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: consumer, Requests: []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "t", Amount: 1}},
				},
			}},
		},
	})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	p := &Evaluator{Catalog: known, Namespaces: everywhere{}, SystemNamespace: "sys"}
	return p.Evaluate(t.Context(), known.Policy("p"), ObjectOf(kind, object), p.Input(object.Object))
}

func TestWhereAClaimIs(t *testing.T) {
	const own = "{{.trigger.metadata.name}}"
	object := func(kind schema.GroupVersionKind, namespace string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetGroupVersionKind(kind)
		o.SetNamespace(namespace)
		o.SetName("a")
		o.SetUID("u")
		return o
	}
	namespaceKind, configMapKind := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	projectKind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Project"}
	for name, tc := range map[string]struct {
		reason    string
		namespace string
		object    *unstructured.Unstructured
		want      string
		wantErr   string
	}{
		"beside the object":             {"unless the template says otherwise", "", object(configMapKind, "n"), "n", ""},
		"of no namespace":               {"there is none to be in", "", object(projectKind, ""), "sys", ""},
		"of a Namespace":                {"it is in none either", "", object(namespaceKind, ""), "sys", ""},
		"of a Namespace, in another":    {"as the template says", "claims", object(namespaceKind, ""), "claims", ""},
		"of a Namespace, in itself":     {"neither would ever be gone", own, object(namespaceKind, ""), "", "its claim belongs in namespace a, which is the object itself and could then never be deleted"},
		"in a namespace of that name":   {"the object can be deleted", own, object(configMapKind, "n"), "a", ""},
		"of no namespace, by that name": {"the namespace is not the object", own, object(projectKind, ""), "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			claim, err := evaluated(t, tc.namespace, tc.object)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) || IsTransient(err) {
					t.Errorf("%s: got %v, want %q", tc.reason, err, tc.wantErr)
				}
				return
			}
			if err != nil || claim.Intent.Claim.Namespace != tc.want {
				t.Errorf("%s: got %+v, %v, want a claim in %s", tc.reason, claim, err, tc.want)
			}
		})
	}
}
