package validate

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// checkThreshold checks, in annotations, the one that says from when on a consumer is near its limit, where it is not what
// it was before.
func checkThreshold(path *field.Path, old, new map[string]string) field.ErrorList {
	const key = quotav1alpha1.AnnotationAlertThreshold
	text, found := new[key]
	if before, had := old[key]; !found || had && text == before {
		return nil
	}
	if _, err := quotav1alpha1.ParseAlertThreshold(text); err != nil {
		return field.ErrorList{field.Invalid(path.Child("annotations").Key(key), text, err.Error())}
	}
	return nil
}
