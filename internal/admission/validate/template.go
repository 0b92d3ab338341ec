package validate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/policy"
)

// claimTemplateWarnings warns of labels and annotations overwritten by Bursar on the claims of a policy.
func claimTemplateWarnings(p *quotav1alpha1.ClaimCreationPolicy) []string {
	return templateWarnings(field.NewPath("spec", "target", "resourceClaimTemplate", "metadata"), p.Spec.Target.ResourceClaimTemplate.Metadata,
		map[string]string{
			quotav1alpha1.LabelAutoCreated:       "true",
			quotav1alpha1.LabelPolicy:            claims.LabelValue(p.Name),
			quotav1alpha1.LabelGVK:               claims.KindLabel(catalog.TriggerOf(p)),
			quotav1alpha1.AnnotationCreatedBy:    quotav1alpha1.CreatedByClaimCreation,
			quotav1alpha1.AnnotationResourceName: nameOfTrigger,
		})
}

// grantTemplateWarnings is claimTemplateWarnings for the grants of a policy.
func grantTemplateWarnings(p *quotav1alpha1.GrantCreationPolicy) []string {
	return templateWarnings(field.NewPath("spec", "target", "resourceGrantTemplate", "metadata"), p.Spec.Target.ResourceGrantTemplate.Metadata,
		map[string]string{
			quotav1alpha1.LabelAutoCreated:       "true",
			quotav1alpha1.LabelPolicy:            claims.LabelValue(p.Name),
			quotav1alpha1.AnnotationCreatedBy:    quotav1alpha1.CreatedByGrantCreation,
			quotav1alpha1.AnnotationResourceName: nameOfTrigger,
		})
}

// nameOfTrigger is the template of the object name set by Bursar.
const nameOfTrigger = "{{.trigger.metadata.name}}"

// templateWarnings compares a template's reserved keys with Bursar's own values, as far as it knows them before there
// are objects.
func templateWarnings(path *field.Path, metadata quotav1alpha1.ObjectTemplateMetadata, sets map[string]string) []string {
	return append(replaced(path.Child("labels"), metadata.Labels, sets), replaced(path.Child("annotations"), metadata.Annotations, sets)...)
}

func replaced(path *field.Path, entries, sets map[string]string) []string {
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if !policy.IsReserved(key) {
			continue
		}
		want, isKnown := sets[key]
		switch got := strings.ReplaceAll(entries[key], " ", ""); {
		case !isKnown:
			warnings = append(warnings, fmt.Sprintf("%s: %q has no effect: Bursar sets this key itself", path.Key(key), entries[key]))
		case entries[key] != want && got != want:
			warnings = append(warnings, fmt.Sprintf("%s: %q has no effect: Bursar sets this key to %q", path.Key(key), entries[key], want))
		}
	}
	return warnings
}
