package importer

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// ended are the namespaces whose deletion began during the import. The import leaves out their objects, and goes on.
// The zero value is empty. It is safe for concurrent use.
type ended struct {
	mu    sync.Mutex
	names map[string]bool
}

func (e *ended) has(namespace string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.names[namespace]
}

func (e *ended) add(namespace string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.names == nil {
		e.names = map[string]bool{}
	}
	e.names[namespace] = true
}

// noteEnded reports whether a write failed because a namespace from the start of the import no longer takes objects.
// The answer of the API server to the write is no proof: it asks for the namespace.
func (i *importer) noteEnded(ctx context.Context, namespace string, err error) (bool, error) {
	isKnown := slices.ContainsFunc(i.target.namespaces, func(n corev1.Namespace) bool { return n.Name == namespace })
	if !isKnown || !apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false, nil
	}
	found, err := i.api.Resource(namespacesAPI).Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && found.GetDeletionTimestamp() != nil {
		i.ended.add(namespace)
		return true, nil
	}
	return false, err
}

// namespace returns the namespace without which an object has no meaning: that of a namespaced object, or of the
// consumer of a policy. It is empty for other objects.
func (p placed) namespace() string {
	switch p.resource {
	case namespacesAPI:
		return p.object.GetName()
	case claimPolicies:
		name, _, _ := unstructured.NestedString(p.object.Object, "spec", "target", "resourceClaimTemplate", "spec", "consumerRef", "namespace") //nolint:errcheck // a plan has a text there
		return name
	default:
		return p.object.GetNamespace()
	}
}

// leaveOut takes the objects of ended namespaces out of a report.
func (r *Report) leaveOut(e *ended) {
	isOut := func(c quotav1alpha1.ConsumerRef) bool { return e.has(c.Namespace) }
	p := r.Plan
	for _, name := range sortedKeys(e.names) {
		delete(p.Limited, name)
		p.Notes = append(p.Notes, Note{"Namespace " + name, "it was deleted during the import, which leaves out its objects"})
	}
	p.Consumers = slices.DeleteFunc(p.Consumers, isOut)
	p.Grants = slices.DeleteFunc(p.Grants, func(g *quotav1alpha1.ResourceGrant) bool { return e.has(g.Namespace) })
	p.Policies = slices.DeleteFunc(p.Policies, func(c *quotav1alpha1.ClaimCreationPolicy) bool {
		return isOut(c.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef)
	})
	p.TakenOver = slices.DeleteFunc(p.TakenOver, func(t TakenOver) bool { return isOut(t.ConsumerRef) })
	p.Kept = slices.DeleteFunc(p.Kept, func(l Leftover) bool { return l.ConsumerRef != nil && isOut(*l.ConsumerRef) })
	r.Short = slices.DeleteFunc(r.Short, func(s Short) bool { return isOut(s.ConsumerRef) })
}
