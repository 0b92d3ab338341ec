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

// isGenerated tells whether a ResourceQuota of a namespace was generated, here or by the openMCP quota operator.
// It is told by its own labels and, where somebody has removed those, by the namespace's, which are there once
// it is.
func isGenerated(quota *corev1.ResourceQuota, namespace *metav1.PartialObjectMetadata) bool {
	labelled := quota.Labels[openmcpv1alpha1.LabelManagedBy] != "" && quota.Labels[openmcpv1alpha1.LabelDefinition] == quota.Name
	return labelled || namespace.Labels[openmcpv1alpha1.LabelManagedBy] != "" && namespace.Labels[openmcpv1alpha1.LabelBase] == quota.Name
}

// templateKeys are the keys that a ResourceQuota has from its template.
type templateKeys struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// wanted is the ResourceQuota that a namespace should have, made from the stored one where there is one: what
// others have added to its labels and annotations stays.
func wanted(stored *corev1.ResourceQuota, namespace *metav1.PartialObjectMetadata, m *match, result increase.Result) *corev1.ResourceQuota {
	quota, template := &corev1.ResourceQuota{}, &m.definition.Template
	if stored != nil {
		quota = stored.DeepCopy()
	}
	quota.Namespace, quota.Name = namespace.Name, m.definition.Name
	var before templateKeys
	_ = json.Unmarshal([]byte(quota.Annotations[openmcpv1alpha1.AnnotationTemplateKeys]), &before) // what is spoilt is as good as nothing
	quota.Labels = replaced(quota.Labels, before.Labels, template.Labels)
	quota.Annotations = replaced(quota.Annotations, before.Annotations, template.Annotations)
	quota.Labels[openmcpv1alpha1.LabelManagedBy] = m.config.Name
	quota.Labels[openmcpv1alpha1.LabelDefinition] = m.definition.Name
	quota.Annotations[openmcpv1alpha1.AnnotationComposition] = increase.Text(result.Composition())
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

// replaced returns values without those that came from a former template, and with those of the template now.
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

// ownedBy has a namespace be the controller of what has these owners, and no other namespace.
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

// rounded rounds amounts up as the API server does, which keeps thousandths.
func rounded(hard corev1.ResourceList) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, amount := range hard {
		amount = amount.DeepCopy()
		amount.RoundUp(resource.Milli)
		list[name] = amount
	}
	return list
}

// isSame tells whether a stored ResourceQuota is as it should be.
func isSame(stored, wanted *corev1.ResourceQuota) bool {
	same := equality.Semantic.DeepEqual
	return stored != nil && same(stored.Spec, wanted.Spec) && same(stored.Labels, wanted.Labels) &&
		same(stored.Annotations, wanted.Annotations) && same(stored.OwnerReferences, wanted.OwnerReferences)
}

// hasScopesOf tells whether a ResourceQuota has the scopes that another should have. They cannot be changed.
func hasScopesOf(stored, wanted *corev1.ResourceQuota) bool {
	return sets.New(stored.Spec.Scopes...).Equal(sets.New(wanted.Spec.Scopes...))
}
