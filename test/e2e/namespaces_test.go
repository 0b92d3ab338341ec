package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// newNamespacesWorld makes a world with a quota for namespaces, and that limit. No policy is effective yet.
func newNamespacesWorld(t *testing.T, limit int64) *world {
	t.Helper()
	w := newWorldFor(t, quotav1alpha1.ClaimingResource{Kind: "Namespace"})
	w.grant("base", limit)
	return w
}

// protectNamespaces protects the namespaces whose names begin with the world's and a dash. change may alter the policy
// first.
func (w *world) protectNamespaces(change func(*quotav1alpha1.ClaimCreationPolicy)) *quotav1alpha1.ClaimCreationPolicy {
	w.Helper()
	return w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "Namespace"}
		p.Spec.Trigger.Conditions[0].Expression = fmt.Sprintf("trigger.metadata.name.startsWith(%q)", w.name+"-")
		if change != nil {
			change(p)
		}
	})
}

func (w *world) namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + name}}
}

// A namespace costs quota from its creation to its end, as any object. Its claim does not block its deletion.
func TestNamespacesUnderQuota(t *testing.T) {
	t.Parallel()
	w := newNamespacesWorld(t, 2)
	const annotation = "example.com/in"
	w.protectNamespaces(func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Metadata.Annotations = map[string]string{annotation: "[{{.requestInfo.namespace}}]"}
	})
	w.mustCreate(w.namespace("a"))
	w.wantBucket(2, 1, 1, 1)
	claim := w.claims()[0]
	if want := (quotav1alpha1.UnversionedObjectReference{Kind: "Namespace", Name: w.name + "-a"}); claim.Namespace != "bursar-system" || claim.Spec.ResourceRef != want {
		t.Errorf("the claim is in namespace %q and refers to %+v, want bursar-system and %+v", claim.Namespace, claim.Spec.ResourceRef, want)
	}
	if got := claim.Annotations[annotation]; got != "[]" {
		t.Errorf("requestInfo.namespace was %s, want nothing: a namespace is in none", got)
	}
	if err := admin.Delete(w.ctx, &claim); !apierrors.IsForbidden(err) {
		t.Errorf("the claim of a namespace that exists was deleted: %v", err)
	}

	// A taken name costs nothing, even if Bursar has not seen the namespace.
	for range 3 {
		if err := admin.Create(w.ctx, w.namespace("a")); !apierrors.IsAlreadyExists(err) {
			t.Fatalf("got %v, want the namespace to exist already", err)
		}
	}
	w.mustCreate(w.namespace("b"))
	w.wantExceeded(w.namespace("c"))
	w.wantBucket(2, 2, 0, 2)

	w.mustDelete(w.namespace("a"))
	w.waitRemoved(w.namespace("a"))
	w.wantBucket(2, 1, 1, 1)
	w.mustCreate(w.namespace("a"))
	w.wantBucket(2, 2, 0, 2)
	w.wantExceeded(w.namespace("c"))
}

// Bursar charges namespaces from before the policy like others, except those exempt from all policies.
func TestExistingNamespacesAreAdopted(t *testing.T) {
	t.Parallel()
	w := newNamespacesWorld(t, 3)
	w.mustCreate(w.namespace("a"))
	w.mustCreate(w.namespace("b"))
	policy := w.protectNamespaces(func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Conditions[0].Expression += ` || trigger.metadata.name in ["kube-system", "kube-public", "kube-node-lease", "bursar-system"]`
	})
	w.wantAdopted(policy, 2, 0)
	w.wantBucket(3, 2, 1, 2)
	for _, claim := range w.claims() {
		if claim.Namespace != "bursar-system" {
			t.Errorf("claim %s is in namespace %s, want it where those of new namespaces are", claim.Name, claim.Namespace)
		}
	}
	w.mustDelete(w.namespace("a"))
	w.waitRemoved(w.namespace("a"))
	w.wantBucket(3, 1, 2, 1)
}

// A namespace is in no namespace, so namespaceObject has no fields: neither in a create nor later.
func TestNamespaceHasNoNamespaceObject(t *testing.T) {
	t.Parallel()
	w := newNamespacesWorld(t, 5)
	w.mustCreate(w.namespace("a"))
	policy := w.protectNamespaces(func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0] = quotav1alpha1.ResourceRequestTemplate{
			ResourceType: w.resourceType(), AmountExpression: "has(namespaceObject.metadata) ? 3 : 1",
		}
	})
	w.wantAdopted(policy, 1, 0)
	w.mustCreate(w.namespace("b"))
	w.wantBucket(5, 2, 3, 2)
}

// The cost of a namespace may change with the namespace.
func TestNamespaceThatChanges(t *testing.T) {
	t.Parallel()
	w := newNamespacesWorld(t, 3)
	w.protectNamespaces(func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate}
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0] = quotav1alpha1.ResourceRequestTemplate{
			ResourceType: w.resourceType(), AmountExpression: `int(trigger.metadata.labels["size"])`,
		}
	})
	namespace := w.namespace("a")
	namespace.Labels = map[string]string{"size": "1"}
	w.mustCreate(namespace)
	w.wantBucket(3, 1, 2, 1)
	resize := func(size string) error {
		return admin.Patch(w.ctx, namespace, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"size":%q}}}`, size)))
	}
	must(t, resize("3"))
	w.wantBucket(3, 3, 0, 1)
	wantTooMuch(t, resize("4"))
	must(t, resize("2"))
	w.wantBucket(3, 2, 1, 1)
	w.mustDelete(w.namespace("a"))
	w.waitRemoved(namespace)
	w.wantBucket(3, 0, 3, 0)
}

// A claim stays until its object is gone, and a namespace until all its objects are gone. So Bursar puts no claim into
// the namespace that it pays for.
func TestClaimIsNotPutIntoItsObject(t *testing.T) {
	t.Parallel()
	w := newNamespacesWorld(t, 3)
	w.mustCreate(w.namespace("a"))
	w.protectNamespaces(func(p *quotav1alpha1.ClaimCreationPolicy) {
		keepsClaims(p)
		p.Spec.Target.ResourceClaimTemplate.Metadata.Namespace = "{{.trigger.metadata.name}}"
	})
	const why = "which is the object itself and could then never be deleted"
	if err := admin.Create(w.ctx, w.namespace("b")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), why) {
		t.Errorf("got %v, want it to be refused, and why", err)
	}
	w.mustDelete(w.namespace("a"))
	w.waitRemoved(w.namespace("a"))
}

// Bursar records a namespace created past enforcement under its name, and charges it.
func TestBreakGlassForNamespaces(t *testing.T) {
	t.Parallel()
	w := newNamespacesWorld(t, 1)
	w.protectNamespaces(nil)
	api, _ := adminWithWarnings(t, as("jane", quotav1alpha1.BreakGlassGroup))
	for _, name := range []string{"a", "b"} {
		namespace := w.namespace(name)
		must(t, api.Create(w.ctx, namespace))
		w.cleanUp(namespace)
		w.wantEventWhere("BrokenGlass", []string{"CREATE by jane"}, func(e *eventsv1.Event) bool {
			return e.Regarding.Kind == "Namespace" && e.Regarding.UID == namespace.UID && e.Regarding.Name == namespace.Name && e.Namespace != metav1.NamespaceDefault
		})
	}
	w.wantBucket(1, 2, 0, 2)
}
