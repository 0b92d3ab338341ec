package events

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"
)

// WithNamespaces returns a recorder that places events on cluster-scoped objects in the namespace of the related
// object, where the users concerned may read them, or else in the system namespace. Names and figures of tenants do not
// belong in the namespace default, so there it records only that there are such events.
func (r *Recorder) WithNamespaces(scheme *runtime.Scheme, systemNamespace string) *Recorder {
	return &Recorder{recorder: r.recorder, scheme: scheme, systemNamespace: systemNamespace}
}

// elsewhere is the note on a cluster-scoped object in the namespace default. The API server accepts an event without a
// namespace of its object only there, and only there kubectl describe finds it. So it names nobody.
const elsewhere = "the events with the details are in other namespaces: kubectl events -A --for %s/%s"

// place returns the regarded object with the namespace of the event. For a cluster-scoped object it also returns the
// object of the note in the namespace default.
func (r *Recorder) place(regarding, related runtime.Object) (placed runtime.Object, clusterScoped *corev1.ObjectReference) {
	if r.scheme == nil {
		return regarding, nil
	}
	ref, err := reference.GetReference(r.scheme, regarding)
	if err != nil || ref.Namespace != "" {
		return regarding, nil
	}

	inNamespace := *ref
	inNamespace.Namespace = r.systemNamespace
	if namespace := r.namespaceOf(related); namespace != "" {
		inNamespace.Namespace = namespace
	}
	// Without the version all notes with the same reason are one event.
	return &inNamespace, &corev1.ObjectReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: ref.UID}
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
