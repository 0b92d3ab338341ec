package quotaincrease

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// The actions of events.
const (
	actionWrite  = "Write"
	actionDelete = "Delete"
)

// recordComposition emits an event for each resource of a ResourceQuota with a new composition. For a ResourceQuota
// without a composition, such as one of the openMCP quota operator, only another amount is a change. The field and the
// version make each event distinct.
func (r *Reconciler) recordComposition(before, after *corev1.ResourceQuota, composition map[corev1.ResourceName]string) {
	former, hasFormer := "", false
	if before != nil {
		former, hasFormer = before.Annotations[openmcpv1alpha1.AnnotationComposition]
		former = "; " + former + ";"
	}
	for _, name := range slices.Sorted(maps.Keys(composition)) {
		sentence := composition[name]
		was, had := corev1.ResourceList(nil)[name], false
		if before != nil {
			was, had = before.Spec.Hard[name]
		}
		isHeldBack := strings.Contains(sentence, "held back")
		if now := after.Spec.Hard[name]; had && was.Cmp(now) == 0 && (strings.Contains(former, "; "+sentence+";") || !hasFormer && !isHeldBack) {
			continue
		}
		regarding := referenceToQuota(after)
		regarding.FieldPath = "spec.hard[" + string(name) + "]"
		if isHeldBack {
			r.Events.Eventf(regarding, nil, corev1.EventTypeWarning, openmcpv1alpha1.EventQuotaHeldBack, actionWrite, "%s", sentence)
		} else {
			r.Events.Eventf(regarding, nil, corev1.EventTypeNormal, openmcpv1alpha1.EventQuotaChanged, actionWrite, "%s", sentence)
		}
	}
}

func referenceToQuota(quota *corev1.ResourceQuota) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "ResourceQuota", Namespace: quota.Namespace, Name: quota.Name, UID: quota.UID, ResourceVersion: quota.ResourceVersion,
	}
}

// referenceToNamespace returns a reference for events in the namespace itself, for its users.
func referenceToNamespace(namespace *metav1.PartialObjectMetadata) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Namespace: namespace.Name, Name: namespace.Name, UID: namespace.UID}
}

func referenceToIncrease(object *openmcpv1alpha1.QuotaIncrease) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: openmcpv1alpha1.GroupVersion.String(), Kind: "QuotaIncrease", Namespace: object.Namespace, Name: object.Name, UID: object.UID,
	}
}
