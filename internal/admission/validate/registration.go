package validate

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

const (
	unitCharactersMax        = 50
	descriptionCharactersMax = 500
	claimingResourcesMax     = 20
)

var registrationTypes = []quotav1alpha1.RegistrationType{
	quotav1alpha1.RegistrationTypeEntity,
	quotav1alpha1.RegistrationTypeAllocation,
	quotav1alpha1.RegistrationTypeFeature,
}

// Registration validates a created (old is nil) or changed registration. registeredBy names the existing
// registration of a new one's resource type, or is empty.
func Registration(old, new *quotav1alpha1.ResourceRegistration, registeredBy string) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	var annotations map[string]string
	if old != nil {
		annotations = old.Annotations
	}
	errs = append(errs, checkAdvice(field.NewPath("metadata"), annotations, new.Annotations)...)
	errs = append(errs, checkDisplayName(field.NewPath("metadata"), annotations, new.Annotations)...)
	errs = append(errs, checkThreshold(field.NewPath("metadata"), annotations, new.Annotations)...)
	if old != nil {
		return append(errs, checkRegistrationChange(path, &old.Spec, &new.Spec)...)
	}
	errs = append(errs, checkRegistrationSpec(path, &new.Spec)...)
	if registeredBy != "" && registeredBy != new.Name {
		err := field.Duplicate(path.Child("resourceType"), new.Spec.ResourceType)
		err.Detail = fmt.Sprintf("resource type %q is already registered by ResourceRegistration %s", new.Spec.ResourceType, registeredBy)
		errs = append(errs, err)
	}
	return errs
}

// checkAdvice validates a changed annotation with advice for exceeded quota.
func checkAdvice(path *field.Path, old, new map[string]string) field.ErrorList {
	const key = quotav1alpha1.AnnotationExceededAdvice
	text := new[key]
	if before, had := old[key]; had && text == before {
		return nil
	}
	if len(text) > quotav1alpha1.ExceededAdviceMax {
		return field.ErrorList{field.TooLong(path.Child("annotations").Key(key), "", quotav1alpha1.ExceededAdviceMax)}
	}
	if err := quotav1alpha1.CheckExceededAdvice(text); err != nil {
		return field.ErrorList{field.Invalid(path.Child("annotations").Key(key), text, err.Error())}
	}
	return nil
}

// checkDisplayName validates a changed annotation with a display name.
func checkDisplayName(path *field.Path, old, new map[string]string) field.ErrorList {
	const key = quotav1alpha1.AnnotationDisplayName
	text := new[key]
	if text == old[key] || utf8.RuneCountInString(text) <= quotav1alpha1.DisplayNameMax {
		return nil
	}
	return field.ErrorList{field.TooLongCharacters(path.Child("annotations").Key(key), text, quotav1alpha1.DisplayNameMax)}
}

func checkRegistrationSpec(path *field.Path, spec *quotav1alpha1.ResourceRegistrationSpec) field.ErrorList {
	errs := checkResourceType(path.Child("resourceType"), spec.ResourceType)
	if !slices.Contains(registrationTypes, spec.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), spec.Type, registrationTypes))
	}
	errs = append(errs, checkUnit(path.Child("baseUnit"), spec.BaseUnit)...)
	errs = append(errs, checkUnit(path.Child("displayUnit"), spec.DisplayUnit)...)
	errs = append(errs, checkFactor(path.Child("unitConversionFactor"), spec.UnitConversionFactor)...)
	consumer := path.Child("consumerType")
	if spec.ConsumerType == (quotav1alpha1.ConsumerTypeRef{}) && spec.ConsumerTypeRef != (quotav1alpha1.ConsumerTypeRef{}) {
		consumer = path.Child("consumerTypeRef")
	}
	errs = append(errs, checkGroup(consumer.Child("apiGroup"), spec.Consumer().APIGroup)...)
	errs = append(errs, checkKind(consumer.Child("kind"), spec.Consumer().Kind)...)
	errs = append(errs, checkDescription(path.Child("description"), spec.Description)...)
	errs = append(errs, checkClaimingResources(path.Child("claimingResources"), spec.ClaimingResources)...)
	return append(errs, checkDimensionKeys(path.Child("dimensions"), spec.Dimensions)...)
}

// checkRegistrationChange validates mutable fields only if they change. So users can still maintain a registration
// older than a rule.
func checkRegistrationChange(path *field.Path, old, new *quotav1alpha1.ResourceRegistrationSpec) field.ErrorList {
	errs := immutable(path.Child("resourceType"), old.ResourceType != new.ResourceType)
	errs = append(errs, immutable(path.Child("type"), old.Type != new.Type)...)
	errs = append(errs, immutable(path.Child("consumerType"), old.Consumer() != new.Consumer())...)
	if old.BaseUnit != new.BaseUnit {
		errs = append(errs, checkUnit(path.Child("baseUnit"), new.BaseUnit)...)
	}
	if old.DisplayUnit != new.DisplayUnit {
		errs = append(errs, checkUnit(path.Child("displayUnit"), new.DisplayUnit)...)
	}
	if old.UnitConversionFactor != new.UnitConversionFactor {
		errs = append(errs, checkFactor(path.Child("unitConversionFactor"), new.UnitConversionFactor)...)
	}
	if old.Description != new.Description {
		errs = append(errs, checkDescription(path.Child("description"), new.Description)...)
	}
	if !slices.Equal(old.ClaimingResources, new.ClaimingResources) {
		errs = append(errs, checkClaimingResources(path.Child("claimingResources"), new.ClaimingResources)...)
	}
	if !slices.Equal(old.Dimensions, new.Dimensions) {
		errs = append(errs, checkDimensionKeys(path.Child("dimensions"), new.Dimensions)...)
	}
	return errs
}

func checkUnit(path *field.Path, unit string) field.ErrorList {
	switch {
	case unit == "":
		return field.ErrorList{field.Required(path, "name the unit in the singular, such as byte")}
	case utf8.RuneCountInString(unit) > unitCharactersMax:
		return field.ErrorList{field.TooLongCharacters(path, unit, unitCharactersMax)}
	}
	return nil
}

func checkFactor(path *field.Path, factor int64) field.ErrorList {
	if factor >= 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, factor, "must be at least 1: it is the number of base units in a display unit")}
}

func checkDescription(path *field.Path, description string) field.ErrorList {
	if utf8.RuneCountInString(description) > descriptionCharactersMax {
		return field.ErrorList{field.TooLongCharacters(path, description, descriptionCharactersMax)}
	}
	return nil
}

func checkClaimingResources(path *field.Path, claiming []quotav1alpha1.ClaimingResource) field.ErrorList {
	var errs field.ErrorList
	if len(claiming) > claimingResourcesMax {
		errs = append(errs, field.TooMany(path, len(claiming), claimingResourcesMax))
		claiming = claiming[:claimingResourcesMax]
	}
	for i, resource := range claiming {
		at := path.Index(i)
		errs = append(errs, checkGroup(at.Child("apiGroup"), resource.APIGroup)...)
		errs = append(errs, checkKind(at.Child("kind"), resource.Kind)...)
		if slices.Contains(claiming[:i], resource) {
			err := field.Duplicate(at, resource)
			err.Detail = fmt.Sprintf("duplicate claiming resource %s", schema.GroupKind{Group: resource.APIGroup, Kind: resource.Kind})
			errs = append(errs, err)
		}
	}
	return errs
}

// checkDimensionKeys checks the keys by the rule of the ledger. A registration does not restrict the values of
// dimensions.
func checkDimensionKeys(path *field.Path, keys []string) field.ErrorList {
	var errs field.ErrorList
	if len(keys) > ledger.DimensionsMax {
		errs = append(errs, field.TooMany(path, len(keys), ledger.DimensionsMax))
		keys = keys[:ledger.DimensionsMax]
	}
	for i, key := range keys {
		at := path.Index(i)
		if _, err := ledger.NewDimensions(map[string]string{key: ""}); err != nil {
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, err.Error()))
		} else if slices.Contains(keys[:i], key) {
			errs = append(errs, field.Duplicate(at, key))
		}
	}
	return errs
}
