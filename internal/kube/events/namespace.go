package events

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"
)

// WithNamespaces returns a recorder that places events on cluster-scoped objects in the namespace of the related
// object, where the users concerned may read them, or else in the system namespace. Otherwise they would be in the
// namespace default, where names and figures of tenants do not belong.
func (r *Recorder) WithNamespaces(scheme *runtime.Scheme, systemNamespace string) *Recorder {
	return &Recorder{recorder: r.recorder, scheme: scheme, systemNamespace: systemNamespace}
}

// withNamespace returns the regarded object, with the namespace of the event.
func (r *Recorder) withNamespace(regarding, related runtime.Object) runtime.Object {
	if r.scheme == nil {
		return regarding
	}
	ref, err := reference.GetReference(r.scheme, regarding)
	if err != nil || ref.Namespace != "" {
		return regarding
	}
	placed := *ref
	placed.Namespace = r.systemNamespace
	if namespace := r.namespaceOf(related); namespace != "" {
		placed.Namespace = namespace
	}
	return &placed
}

// namespaceOf returns the namespace of an object. The object may be nil.
func (r *Recorder) namespaceOf(object runtime.Object) string {
	if ref, ok := object.(*corev1.ObjectReference); object == nil || ok && ref == nil {
		return ""
	}
	ref, err := reference.GetReference(r.scheme, object)
	if err != nil {
		return ""
	}
	return ref.Namespace
}
