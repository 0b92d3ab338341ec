package kubernetes

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testVolumes creates PersistentVolumeClaims and expands a bound one.
func testVolumes(n *team) {
	n.grant(map[string]int64{storage: 10 * gibibyte})
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: n.name}, Provisioner: "example.com/none", AllowVolumeExpansion: new(true)}
	n.create(class)
	volume := func(name, size string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: n.name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class.Name, VolumeName: name,
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
			},
		}
	}
	data := volume("data", "4Gi")
	n.create(data)
	n.wantAllocated(storage, 4*gibibyte, 1)
	n.wantExceeded(n.creating(volume("more", "7Gi")), storage, "7 GiB", "4", "10")

	data.Status.Phase, data.Status.Capacity = corev1.ClaimBound, data.Spec.Resources.Requests
	if err := n.Status().Update(n.Context(), data); err != nil {
		n.Fatal(err)
	}
	expand := func(size string) error {
		larger := data.DeepCopy()
		larger.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		return n.Patch(n.Context(), larger, client.MergeFrom(data))
	}
	if err := expand("8Gi"); err != nil {
		n.Fatal(err)
	}
	n.wantAllocated(storage, 8*gibibyte, 1)
	n.wantExceeded(func() error { return expand("11Gi") }, storage, "3 GiB", "8", "10")

	// Kubernetes protects it from deletion while it may be in use, and it holds its charge so long.
	if err := n.Delete(n.Context(), data); err != nil {
		n.Fatal(err)
	}
	n.wantExceeded(n.creating(volume("more", "7Gi")), storage, "7 GiB", "8", "10")
	if err := n.Patch(n.Context(), data, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		n.Fatal(err)
	}
	n.createSoon(volume("more", "7Gi"))
	n.wantAllocated(storage, 7*gibibyte, 1)
}
