package quotaincrease

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// The reasons of events.
const (
	reasonQuotaChanged    = "QuotaChanged"
	reasonQuotaHeldBack   = "QuotaHeldBack"
	reasonQuotaContested  = "QuotaContested"
	reasonQuotaRemoved    = "QuotaRemoved"
	reasonQuotaExists     = "QuotaExists"
	reasonIncreaseDeleted = "QuotaIncreaseDeleted"
	reasonWouldBeDeleted  = "QuotaIncreaseWouldBeDeleted"

	actionWrite  = "Write"
	actionDelete = "Delete"
)

// recordComposition tells of each resource of a ResourceQuota what it is now made of, if that has changed. Of one that has
// not said so far what it is made of, as the openMCP quota operator makes them, only another amount is a change.
// The field and the version keep one event apart from the next.
func (r *Reconciler) recordComposition(before, after *corev1.ResourceQuota, composition map[corev1.ResourceName]string) {
	told, hasTold := "", false
	if before != nil {
		told, hasTold = before.Annotations[openmcpv1alpha1.AnnotationComposition]
		told = "; " + told + ";"
	}
	for _, name := range slices.Sorted(maps.Keys(composition)) {
		said := composition[name]
		was, had := corev1.ResourceList(nil)[name], false
		if before != nil {
			was, had = before.Spec.Hard[name]
		}
		isHeldBack := strings.Contains(said, "held back")
		if now := after.Spec.Hard[name]; had && was.Cmp(now) == 0 && (strings.Contains(told, "; "+said+";") || !hasTold && !isHeldBack) {
			continue
		}
		regarding := referenceToQuota(after)
		regarding.FieldPath = "spec.hard[" + string(name) + "]"
		if isHeldBack {
			r.Events.Eventf(regarding, nil, corev1.EventTypeWarning, reasonQuotaHeldBack, actionWrite, "%s", said)
		} else {
			r.Events.Eventf(regarding, nil, corev1.EventTypeNormal, reasonQuotaChanged, actionWrite, "%s", said)
		}
	}
}

func referenceToQuota(quota *corev1.ResourceQuota) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "ResourceQuota", Namespace: quota.Namespace, Name: quota.Name, UID: quota.UID, ResourceVersion: quota.ResourceVersion,
	}
}

// referenceToNamespace is a namespace as something in itself, so that its users see the events.
func referenceToNamespace(namespace *metav1.PartialObjectMetadata) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Namespace: namespace.Name, Name: namespace.Name, UID: namespace.UID}
}

func referenceToIncrease(object *openmcpv1alpha1.QuotaIncrease) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: openmcpv1alpha1.GroupVersion.String(), Kind: "QuotaIncrease", Namespace: object.Namespace, Name: object.Name, UID: object.UID,
	}
}
