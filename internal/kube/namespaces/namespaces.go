// Package namespaces answers questions about namespaces from a watch of their metadata. It reads an unknown namespace
// from the API server, because it may be new. Like all of kube it knows no quota, and any internal package may import
// it.
package namespaces

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Exempt returns the namespaces ignored by every ClaimCreationPolicy, together with their objects: those of the control
// plane, and Bursar's own.
func Exempt(systemNamespace string) []string {
	return []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease, systemNamespace}
}

// IsExempt reports whether an object is in an exempt namespace, or is one. It agrees with the namespace selector of a
// webhook: such a selector matches a Namespace by its own labels.
func IsExempt(systemNamespace string, kind schema.GroupKind, name types.NamespacedName) bool {
	return slices.Contains(Exempt(systemNamespace), Of(kind, name))
}

// Of returns the namespace of an object or, for a Namespace, its own name. It is empty for all other objects without a
// namespace.
func Of(kind schema.GroupKind, name types.NamespacedName) string {
	if kind == corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind() {
		return name.Name
	}
	return name.Namespace
}

// Namespaces reads namespaces. It is safe for concurrent use.
type Namespaces struct {
	// Cached reads from the watch, Live from the API server.
	Cached, Live client.Reader
}

// Active reports whether a namespace exists and is not being deleted.
func (n *Namespaces) Active(ctx context.Context, name string) (bool, error) {
	namespace, err := n.get(ctx, name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return namespace.DeletionTimestamp == nil, nil
}

// Object returns the metadata of a namespace in the form of a policy's objects.
func (n *Namespaces) Object(ctx context.Context, name string) (map[string]any, error) {
	namespace, err := n.get(ctx, name)
	if err != nil {
		return nil, err
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(namespace)
	if err != nil {
		return nil, fmt.Errorf("convert namespace %s: %w", name, err)
	}
	return object, nil
}

func (n *Namespaces) get(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	namespace, err := read(ctx, n.Cached, name)
	if apierrors.IsNotFound(err) {
		return read(ctx, n.Live, name)
	}
	return namespace, err
}

func read(ctx context.Context, from client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := from.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, fmt.Errorf("look up namespace %s: %w", name, err)
	}
	return namespace, nil
}

// Live reads namespaces from the API server.
type Live struct{ Metadata metadata.Interface }

// Get returns the current metadata of a namespace, or nil if it does not exist.
func (l Live) Get(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	object, err := l.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up namespace %s: %w", name, err)
	}
	return object, nil
}

// Ensure creates a namespace unless it exists. It reads first, because Bursar may lack the permission to create a
// namespace that an administrator has created.
func Ensure(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("make sure that namespace %s exists: %w", name, err)
	}
	return nil
}
