// Package remote reads the registrations of other control planes: Secrets in Bursar's system namespace. Such a Secret
// names the object behind the control plane, and holds the kubeconfig.
//
// Only the system namespace counts, because Bursar sends credentials to the registered server. Only platform
// administrators can write there.
//
// Only package grantpolicy imports it.
package remote

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Ref identifies a control plane by the object behind it. The zero value is the control plane of Bursar itself.
type Ref struct {
	Group string `json:"apiGroup"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

// IsLocal reports whether it is Bursar's own control plane.
func (r Ref) IsLocal() bool { return r == Ref{} }

func (r Ref) String() string {
	if r.IsLocal() {
		return "this control plane"
	}
	return fmt.Sprintf("control plane %s %s", schema.GroupKind{Group: r.Group, Kind: r.Kind}, r.Name)
}

// Mark identifies this registration on a grant. It is empty for a grant in Bursar's own control plane.
func (r Ref) Mark() string {
	if r.IsLocal() {
		return ""
	}
	return schema.GroupKind{Group: r.Group, Kind: r.Kind}.String() + "/" + r.Name
}

// Names of Cluster API: https://cluster-api.sigs.k8s.io, "Kubeconfig Secrets".
const (
	clusterGroup = "cluster.x-k8s.io"
	clusterKind  = "Cluster"
	// clusterNameLabel is on every Secret of a Cluster; the Secret with the kubeconfig has a name of its own.
	clusterNameLabel      = "cluster.x-k8s.io/cluster-name"
	clusterSecretSuffix   = "-kubeconfig"
	clusterKubeconfigKey  = "value"
	ordinaryKubeconfigKey = "kubeconfig"
)

// ControlPlane is the content of a registration.
type ControlPlane struct {
	Ref Ref
	// Kubeconfig leads to the control plane. It is empty if the Secret has none.
	Kubeconfig []byte
}

// Read returns the registration in a Secret, and false if there is none.
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

// mark returns a label or, without one, the annotation of the same name: names of objects can be longer than labels.
func mark(secret *corev1.Secret, key string) string {
	return cmp.Or(secret.Labels[key], secret.Annotations[key])
}

// Precedes reports whether a takes precedence over b if both register one control plane: the older Secret does, and a
// new one cannot replace it.
func Precedes(a, b *corev1.Secret) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
