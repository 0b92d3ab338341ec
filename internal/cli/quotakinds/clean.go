package quotakinds

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// written are labels and annotations that Bursar or kubectl writes on declared objects.
var written = []string{
	quotav1alpha1.AnnotationControlPlanes, quotav1alpha1.AnnotationChangedBy, quotav1alpha1.AnnotationDeletedBy,
	quotav1alpha1.AnnotationRequest, quotav1alpha1.AnnotationRequestUID,
	openmcpv1alpha1.LabelMode, openmcpv1alpha1.AnnotationEffect, openmcpv1alpha1.AnnotationToBeDeleted,
	"kubectl.kubernetes.io/last-applied-configuration",
}

// IsFromPolicy reports whether a GrantCreationPolicy made a grant, or a ClaimCreationPolicy a claim.
func IsFromPolicy(object *unstructured.Unstructured) bool {
	return object.GetLabels()[quotav1alpha1.LabelAutoCreated] == "true" || object.GetAnnotations()[quotav1alpha1.AnnotationCreatedBy] != ""
}

// Portable returns an object without the fields of its server: its identity, its finalizers and owners.
func Portable(object *unstructured.Unstructured) *unstructured.Unstructured {
	content := maps.Clone(object.Object)
	content["metadata"] = metadataOf(object, object.GetLabels(), object.GetAnnotations())
	return &unstructured.Unstructured{Object: content}
}

// Declaration returns an object as a person would write it. It also lacks the status, and metadata written by Bursar or
// kubectl.
func Declaration(object *unstructured.Unstructured) *unstructured.Unstructured {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	for _, key := range written {
		delete(labels, key)
		delete(annotations, key)
	}
	content := maps.Clone(object.Object)
	content["metadata"] = metadataOf(object, labels, annotations)
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}
}

func metadataOf(object *unstructured.Unstructured, labels, annotations map[string]string) map[string]any {
	metadata := map[string]any{"name": object.GetName()}
	if namespace := object.GetNamespace(); namespace != "" {
		metadata["namespace"] = namespace
	}
	for field, values := range map[string]map[string]string{"labels": labels, "annotations": annotations} {
		if len(values) == 0 {
			continue
		}
		converted := make(map[string]any, len(values))
		for key, value := range values {
			converted[key] = value
		}
		metadata[field] = converted
	}
	return metadata
}

// Name returns the namespace and the name of an object, as NAMESPACE/NAME.
func Name(object *unstructured.Unstructured) string {
	return strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
}
