package evaluator

import (
	"context"
	"errors"
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
)

// everywhere has all namespaces.
type everywhere struct{}

func (everywhere) Active(context.Context, string) (bool, error) { return true, nil }
func (everywhere) Object(_ context.Context, name string) (map[string]any, error) {
	return map[string]any{"metadata": map[string]any{"name": name}}, nil
}

// evaluating returns an evaluator, and its policy for a kind with this metadata in its template.
func evaluating(t *testing.T, kind schema.GroupVersionKind, template quotav1alpha1.ObjectTemplateMetadata) (*Evaluator, *catalog.Policy) {
	t.Helper()
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
			Trigger: quotav1alpha1.ClaimTrigger{Resource: quotav1alpha1.ClaimTriggerResource{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: template,
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: consumer, Requests: []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "t", Amount: 1}},
				},
			}},
		},
	})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return &Evaluator{Catalog: known, Namespaces: everywhere{}, SystemNamespace: "sys"}, known.Policy("p")
}

// objectOf returns the object a of a kind.
func objectOf(kind schema.GroupVersionKind, namespace string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName("a")
	o.SetUID("u")
	return o
}

var (
	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	configMapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)

func TestWhereAClaimIs(t *testing.T) {
	const own = "{{.trigger.metadata.name}}"
	projectKind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Project"}
	for name, tc := range map[string]struct {
		reason    string
		namespace string
		object    *unstructured.Unstructured
		want      string
		wantErr   string
	}{
		"beside the object":             {"unless the template says otherwise", "", objectOf(configMapKind, "n"), "n", ""},
		"of no namespace":               {"there is none to be in", "", objectOf(projectKind, ""), "sys", ""},
		"of a Namespace":                {"it is in none either", "", objectOf(namespaceKind, ""), "sys", ""},
		"of a Namespace, in another":    {"as the template says", "claims", objectOf(namespaceKind, ""), "claims", ""},
		"of a Namespace, in itself":     {"neither would ever be gone", own, objectOf(namespaceKind, ""), "", "its claim belongs in namespace a, which is the object itself and could then never be deleted"},
		"in a namespace of that name":   {"the object can be deleted", own, objectOf(configMapKind, "n"), "a", ""},
		"of no namespace, by that name": {"the namespace is not the object", own, objectOf(projectKind, ""), "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			// Only a claim of record has a place from the beginning.
			e, p := evaluating(t, tc.object.GroupVersionKind(), quotav1alpha1.ObjectTemplateMetadata{
				Namespace: tc.namespace, Annotations: map[string]string{"example.com/user": "{{.user.name}}"},
			})
			claim, err := e.Evaluate(t.Context(), p, ObjectOf(p.Trigger, tc.object), e.Input(tc.object.Object))
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

// namespaceStates has namespaces that are active or not, and cannot tell about others.
type namespaceStates map[string]bool

func (n namespaceStates) Active(_ context.Context, name string) (bool, error) {
	active, known := n[name]
	if !known {
		return false, errors.New("the API server does not answer")
	}
	return active, nil
}

func (namespaceStates) Object(context.Context, string) (map[string]any, error) { return nil, nil }

func TestWhereAViewIs(t *testing.T) {
	for name, tc := range map[string]struct {
		reason    string
		namespace string
		object    *unstructured.Unstructured
		want      string
	}{
		"beside the object":         {"unless the template says otherwise", "", objectOf(configMapKind, "n"), "n"},
		"in another namespace":      {"as the template says", "active", objectOf(configMapKind, "n"), "active"},
		"in a namespace that ends":  {"nothing can be made there", "ending", objectOf(configMapKind, "n"), "sys"},
		"of a Namespace, in itself": {"the view would keep its namespace from going", "{{.trigger.metadata.name}}", objectOf(namespaceKind, ""), "sys"},
	} {
		t.Run(name, func(t *testing.T) {
			e, p := evaluating(t, tc.object.GroupVersionKind(), quotav1alpha1.ObjectTemplateMetadata{Namespace: tc.namespace, Name: "v-{{.trigger.metadata.name}}"})
			e.Namespaces = namespaceStates{"active": true, "ending": false}

			view, err := e.View(t.Context(), p, p.Trigger, tc.object)

			if err != nil {
				t.Fatal(err)
			}
			if view.Namespace != tc.want || view.Name != "v-a" || !claims.IsView(view) || claims.PolicyOf(view) != "p" {
				t.Errorf("%s: got %s/%s with labels %v, want v-a in %s", tc.reason, view.Namespace, view.Name, view.Labels, tc.want)
			}
		})
	}
}

// A view does not move to the system namespace because its own cannot be looked up for a moment.
func TestViewWaitsForItsNamespace(t *testing.T) {
	e, p := evaluating(t, configMapKind, quotav1alpha1.ObjectTemplateMetadata{Namespace: "elsewhere"})
	e.Namespaces = namespaceStates{}
	if view, err := e.View(t.Context(), p, configMapKind, objectOf(configMapKind, "n")); !IsTransient(err) {
		t.Errorf("got %+v, %v, want an error that is worth a retry", view, err)
	}
}
