// Package remote knows how other control planes are registered: by Secrets in Bursar's system
// namespace. It reads from such a Secret which object stands for the control plane, and how to
// reach it.
//
// Only the system namespace counts, as a registration makes Bursar send credentials to wherever it
// says; nobody but platform administrators can write there.
package remote

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Ref names a control plane by the object that stands for it. The zero value is the control plane
// that Bursar itself runs in.
type Ref struct {
	Group string `json:"apiGroup"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

// IsLocal tells whether it is the control plane that Bursar runs in.
func (r Ref) IsLocal() bool { return r == Ref{} }

func (r Ref) String() string {
	if r.IsLocal() {
		return "this control plane"
	}
	return fmt.Sprintf("control plane %s %s", schema.GroupKind{Group: r.Group, Kind: r.Kind}, r.Name)
}

// Mark is how a grant tells that it was made by way of this registration. It is empty for a grant in
// the control plane that Bursar runs in.
func (r Ref) Mark() string {
	if r.IsLocal() {
		return ""
	}
	return schema.GroupKind{Group: r.Group, Kind: r.Kind}.String() + "/" + r.Name
}

// What Cluster API says of its Clusters: https://cluster-api.sigs.k8s.io, "Kubeconfig Secrets".
const (
	clusterGroup = "cluster.x-k8s.io"
	clusterKind  = "Cluster"
	// clusterNameLabel is on every Secret of a Cluster; the one with the kubeconfig has a name of its
	// own.
	clusterNameLabel      = "cluster.x-k8s.io/cluster-name"
	clusterSecretSuffix   = "-kubeconfig"
	clusterKubeconfigKey  = "value"
	ordinaryKubeconfigKey = "kubeconfig"
)

// ControlPlane is what a Secret says of one.
type ControlPlane struct {
	Ref Ref
	// Kubeconfig says how to reach it. It is empty if the Secret does not say.
	Kubeconfig []byte
}

// Read returns what a Secret registers, and false if it registers nothing.
func Read(secret *corev1.Secret) (ControlPlane, bool) {
	kubeconfig := secret.Data[ordinaryKubeconfigKey]
	if len(kubeconfig) == 0 {
		kubeconfig = secret.Data[clusterKubeconfigKey]
	}
	ref := Ref{
		Group: mark(secret, quotav1alpha1.LabelControlPlaneGroup),
		Kind:  mark(secret, quotav1alpha1.LabelControlPlaneKind),
		Name:  mark(secret, quotav1alpha1.LabelControlPlaneName),
	}
	if ref.Kind != "" && ref.Name != "" {
		return ControlPlane{ref, kubeconfig}, true
	}
	name := secret.Labels[clusterNameLabel]
	if name != "" && secret.Name == name+clusterSecretSuffix {
		return ControlPlane{Ref{Group: clusterGroup, Kind: clusterKind, Name: name}, secret.Data[clusterKubeconfigKey]}, true
	}
	return ControlPlane{}, false
}

// mark returns a label or, where there is none, the annotation of the same name: names of objects
// can be longer than labels.
func mark(secret *corev1.Secret, key string) string {
	return cmp.Or(secret.Labels[key], secret.Annotations[key])
}

// Precedes tells whether a is the one that counts where two Secrets register one control plane: the
// older one, so that another cannot take its place.
func Precedes(a, b *corev1.Secret) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
