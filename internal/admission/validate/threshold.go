package validate

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// checkThreshold validates a changed annotation with an alert threshold.
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
