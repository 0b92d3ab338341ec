package validate

import (
	"regexp"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

const (
	// kindBytesMax bounds the name of a kind, as the API server does.
	kindBytesMax = 63
	// nameBytesMax bounds the name of an object.
	nameBytesMax = validation.DNS1123SubdomainMaxLength
)

var kindPattern = regexp.MustCompile(`^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$`)

// checkReference checks that a reference to a consumer can refer to an object: the core group or a DNS subdomain, a
// kind, a name for a path, and a namespace or none.
func checkReference(path *field.Path, ref quotav1alpha1.ConsumerRef) field.ErrorList {
	errs := checkGroup(path.Child("apiGroup"), ref.APIGroup)
	errs = append(errs, checkKind(path.Child("kind"), ref.Kind)...)
	errs = append(errs, checkName(path.Child("name"), ref.Name)...)
	return append(errs, checkNamespace(path.Child("namespace"), ref.Namespace)...)
}

// checkObjectReference is checkReference for the object of a claim.
func checkObjectReference(path *field.Path, ref quotav1alpha1.UnversionedObjectReference) field.ErrorList {
	return checkReference(path, quotav1alpha1.ConsumerRef(ref))
}

// checkGroup accepts the empty string, meaning the core group.
func checkGroup(path *field.Path, group string) field.ErrorList {
	switch {
	case group == "":
		return nil
	case len(group) > validation.DNS1123SubdomainMaxLength:
		return field.ErrorList{field.TooLong(path, group, validation.DNS1123SubdomainMaxLength)}
	}
	return invalid(path, group, validation.IsDNS1123Subdomain(group))
}

func checkKind(path *field.Path, kind string) field.ErrorList {
	switch {
	case kind == "":
		return field.ErrorList{field.Required(path, "name the kind of the object, such as Project")}
	case len(kind) > kindBytesMax:
		return field.ErrorList{field.TooLong(path, kind, kindBytesMax)}
	case !kindPattern.MatchString(kind):
		return field.ErrorList{field.Invalid(path, kind, "must be made of letters, digits and dashes, begin with a letter and not end in a dash")}
	}
	return nil
}

func checkName(path *field.Path, name string) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(path, "name the object")}
	case len(name) > nameBytesMax:
		return field.ErrorList{field.TooLong(path, name, nameBytesMax)}
	case !isGraphic(name):
		return field.ErrorList{field.Invalid(path, name, "must be made of printable characters without spaces")}
	}
	return invalid(path, name, content.IsPathSegmentName(name))
}

// checkNamespace accepts the empty string, meaning a cluster-scoped object.
func checkNamespace(path *field.Path, namespace string) field.ErrorList {
	switch {
	case namespace == "":
		return nil
	case len(namespace) > validation.DNS1123LabelMaxLength:
		return field.ErrorList{field.TooLong(path, namespace, validation.DNS1123LabelMaxLength)}
	}
	return invalid(path, namespace, validation.IsDNS1123Label(namespace))
}

// checkResourceType checks the name of a resource type. It may have any printable form.
func checkResourceType(path *field.Path, resourceType string) field.ErrorList {
	switch {
	case resourceType == "":
		return field.ErrorList{field.Required(path, "name the resource type, such as resourcemanager.miloapis.com/projects")}
	case len(resourceType) > ledger.ResourceTypeBytesMax:
		return field.ErrorList{field.TooLong(path, resourceType, ledger.ResourceTypeBytesMax)}
	case !isGraphic(resourceType):
		return field.ErrorList{field.Invalid(path, resourceType, "must be made of printable characters without spaces")}
	}
	return nil
}

// isGraphic reports whether s has only visible characters without spaces.
func isGraphic(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }) < 0
}

// checkCount accepts a list of 1 to most entries.
func checkCount(path *field.Path, count, most int) field.ErrorList {
	switch {
	case count == 0:
		return field.ErrorList{field.Required(path, "must have at least 1 item")}
	case count > most:
		return field.ErrorList{field.TooMany(path, count, most)}
	}
	return nil
}

// invalid returns an error for each reason of a malformed value.
func invalid(path *field.Path, value string, reasons []string) field.ErrorList {
	var errs field.ErrorList
	for _, reason := range reasons {
		errs = append(errs, field.Invalid(path, value, reason))
	}
	return errs
}

// immutable reports a change of an immutable field.
func immutable(path *field.Path, changed bool) field.ErrorList {
	if !changed {
		return nil
	}
	return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "field is immutable")}
}
