package quotaincrease

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	"github.com/bursar/bursar/internal/increase"
)

// isGenerated reports whether Bursar or the openMCP quota operator generated a ResourceQuota. Its own labels identify
// it and, if a user removed those, the labels of its namespace.
func isGenerated(quota *corev1.ResourceQuota, namespace *metav1.PartialObjectMetadata) bool {
	return isLabelled(quota) || namespace.Labels[openmcpv1alpha1.LabelManagedBy] != "" && namespace.Labels[openmcpv1alpha1.LabelBase] == quota.Name
}

// isOurs reports whether the labels or the owner of a ResourceQuota itself mark it as generated. Its namespace's labels
// do not count: users without the right to delete the ResourceQuota may change them.
func isOurs(quota *corev1.ResourceQuota, namespace *metav1.PartialObjectMetadata) bool {
	owner := metav1.GetControllerOf(quota)
	return isLabelled(quota) || owner != nil && owner.Kind == "Namespace" && owner.UID == namespace.UID
}

// isLabelled reports whether a ResourceQuota has the labels of a generated one.
func isLabelled(quota *corev1.ResourceQuota) bool {
	return quota.Labels[openmcpv1alpha1.LabelManagedBy] != "" && quota.Labels[openmcpv1alpha1.LabelDefinition] == quota.Name
}

// templateKeys are the label and annotation keys of a ResourceQuota's template.
type templateKeys struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// desiredQuota returns the desired ResourceQuota of a namespace. It keeps the labels and annotations added by others to
// the stored one.
func desiredQuota(stored *corev1.ResourceQuota, namespace *metav1.PartialObjectMetadata, m *match, result increase.Result) *corev1.ResourceQuota {
	quota, template := &corev1.ResourceQuota{}, &m.definition.Template
	if stored != nil {
		quota = stored.DeepCopy()
	}
	quota.Namespace, quota.Name = namespace.Name, m.definition.Name
	var before templateKeys
	_ = json.Unmarshal([]byte(quota.Annotations[openmcpv1alpha1.AnnotationTemplateKeys]), &before) // invalid keys count as none
	quota.Labels = replaced(quota.Labels, before.Labels, template.Labels)
	quota.Annotations = replaced(quota.Annotations, before.Annotations, template.Annotations)
	quota.Labels[openmcpv1alpha1.LabelManagedBy] = m.config.Name
	quota.Labels[openmcpv1alpha1.LabelDefinition] = m.definition.Name
	quota.Annotations[openmcpv1alpha1.AnnotationComposition] = cut(increase.Text(result.Composition()))
	delete(quota.Annotations, openmcpv1alpha1.AnnotationTemplateKeys)
	if len(template.Labels)+len(template.Annotations) > 0 {
		keys, _ := json.Marshal(templateKeys{Labels: slices.Sorted(maps.Keys(template.Labels)), Annotations: slices.Sorted(maps.Keys(template.Annotations))})
		quota.Annotations[openmcpv1alpha1.AnnotationTemplateKeys] = string(keys)
	}
	quota.OwnerReferences = ownedBy(quota.OwnerReferences, namespace)
	quota.Spec = *template.Spec.DeepCopy()
	quota.Spec.Hard = rounded(result.Hard)
	return quota
}

// replaced returns values without the former template's keys, and with the values of the current template.
func replaced(values map[string]string, former []string, now map[string]string) map[string]string {
	values = maps.Clone(values)
	if values == nil {
		values = map[string]string{}
	}
	for _, key := range former {
		delete(values, key)
	}
	maps.Copy(values, now)
	return values
}

// ownedBy makes a namespace the only controller among these owners, and removes other namespaces.
func ownedBy(owners []metav1.OwnerReference, namespace *metav1.PartialObjectMetadata) []metav1.OwnerReference {
	var kept []metav1.OwnerReference
	isOwned := false
	for _, owner := range owners {
		if owner.APIVersion == "v1" && owner.Kind == "Namespace" {
			if owner.UID != namespace.UID {
				continue
			}
			isOwned, owner.Controller = true, new(true)
		} else if owner.Controller != nil && *owner.Controller {
			owner.Controller = nil
		}
		kept = append(kept, owner)
	}
	if !isOwned {
		kept = append(kept, metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: namespace.Name, UID: namespace.UID, Controller: new(true)})
	}
	return kept
}

// rounded rounds amounts up to thousandths, as the API server does.
func rounded(hard corev1.ResourceList) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, amount := range hard {
		amount = amount.DeepCopy()
		amount.RoundUp(resource.Milli)
		list[name] = amount
	}
	return list
}

// isSame reports whether a stored ResourceQuota equals the desired one.
func isSame(stored, desired *corev1.ResourceQuota) bool {
	same := equality.Semantic.DeepEqual
	return stored != nil && same(stored.Spec, desired.Spec) && same(stored.Labels, desired.Labels) &&
		same(stored.Annotations, desired.Annotations) && same(stored.OwnerReferences, desired.OwnerReferences)
}

// hasScopesOf reports whether a ResourceQuota has the scopes of the desired one. Scopes are immutable.
func hasScopesOf(stored, desired *corev1.ResourceQuota) bool {
	return sets.New(stored.Spec.Scopes...).Equal(sets.New(desired.Spec.Scopes...))
}
