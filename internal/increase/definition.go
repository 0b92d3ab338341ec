package increase

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

var modes = []openmcpv1alpha1.QuotaMode{openmcpv1alpha1.ModeCumulative, openmcpv1alpha1.ModeMaximum, openmcpv1alpha1.ModeSingular}

// ValidateDefinitions returns the errors of each definition of a configuration, in their order. It does not apply the
// API server's own rules for the spec of a ResourceQuota. A definition with an error has no effect.
func ValidateDefinitions(config *openmcpv1alpha1.QuotaServiceConfig) []field.ErrorList {
	all := make([]field.ErrorList, len(config.Spec.Quotas))
	for i := range config.Spec.Quotas {
		definition, at := &config.Spec.Quotas[i], DefinitionPath(i)
		errs := checkLabelValue(field.NewPath("metadata", "name"), config.Name)
		errs = append(errs, checkName(at.Child("name"), definition.Name)...)
		if slices.ContainsFunc(config.Spec.Quotas[:i], func(d openmcpv1alpha1.QuotaDefinition) bool { return d.Name == definition.Name }) {
			errs = append(errs, field.Duplicate(at.Child("name"), definition.Name))
		}
		if !slices.Contains(modes, definition.Mode) {
			errs = append(errs, field.NotSupported(at.Child("mode"), definition.Mode, modes))
		}
		if _, err := Selector(definition); err != nil {
			errs = append(errs, field.Invalid(at.Child("selector"), field.OmitValueType{}, err.Error()))
		}
		template := at.Child("template")
		errs = append(errs, metav1validation.ValidateLabels(definition.Template.Labels, template.Child("labels"))...)
		errs = append(errs, apivalidation.ValidateAnnotations(definition.Template.Annotations, template.Child("annotations"))...)
		all[i] = errs
	}
	return all
}

// DefinitionPath is the path of a definition in a configuration.
func DefinitionPath(i int) *field.Path { return field.NewPath("spec", "quotas").Index(i) }

// SpecPath is the path of the ResourceQuota spec of a definition in a configuration.
func SpecPath(i int) *field.Path { return DefinitionPath(i).Child("template", "spec") }

// checkName checks the name of a ResourceQuota that is also the value of a label.
func checkName(path *field.Path, name string) field.ErrorList {
	errs := checkLabelValue(path, name)
	for _, problem := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, name, problem))
	}
	return errs
}

func checkLabelValue(path *field.Path, value string) field.ErrorList {
	if len(value) > validation.LabelValueMaxLength {
		return field.ErrorList{field.TooLong(path, value, validation.LabelValueMaxLength)}
	}
	return nil
}

// Quota returns the ResourceQuota of a definition, without increases and without the labels of generated quotas.
func Quota(definition *openmcpv1alpha1.QuotaDefinition) *corev1.ResourceQuota {
	template := definition.Template.DeepCopy()
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec}
}

// Selector returns the selector of a definition. Without one it selects everything. An error means that it is invalid.
func Selector(definition *openmcpv1alpha1.QuotaDefinition) (labels.Selector, error) {
	if definition.Selector == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(definition.Selector)
}
