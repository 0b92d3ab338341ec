package allocation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// unlimitedMax bounds the namespaces without a limit in a status, and namedMax those in the message of the
	// condition.
	unlimitedMax = 50
	namedMax     = 5
)

// Unlimited returns the namespaces without any ResourceQuota for some capped resource, ordered by name. used has the
// amounts of each namespace, zeros included. capped is sorted.
func Unlimited(used map[string]corev1.ResourceList, capped []corev1.ResourceName) []quotav1alpha1.UnlimitedNamespace {
	var unlimited []quotav1alpha1.UnlimitedNamespace
	for _, namespace := range slices.Sorted(maps.Keys(used)) {
		var missing []corev1.ResourceName
		for _, name := range capped {
			if _, isLimited := used[namespace][name]; !isLimited {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			unlimited = append(unlimited, quotav1alpha1.UnlimitedNamespace{Namespace: namespace, Resources: missing})
		}
	}
	return unlimited
}

// limited returns the condition Limited for the number of namespaces.
func limited(unlimited []quotav1alpha1.UnlimitedNamespace, namespaces int) metav1.Condition {
	if len(unlimited) == 0 {
		return metav1.Condition{Type: quotav1alpha1.ConditionLimited, Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonAllLimited,
			Message: "every selected namespace has a ResourceQuota for each capped resource"}
	}
	var named []string
	for _, u := range unlimited[:min(len(unlimited), namedMax)] {
		resources := make([]string, 0, len(u.Resources))
		for _, name := range u.Resources {
			resources = append(resources, string(name))
		}
		named = append(named, fmt.Sprintf("%s (%s)", u.Namespace, strings.Join(resources, ", ")))
	}
	if more := len(unlimited) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	noun, verb := "namespaces", "have"
	if namespaces == 1 {
		noun = "namespace"
	}
	if len(unlimited) == 1 {
		verb = "has"
	}
	return metav1.Condition{Type: quotav1alpha1.ConditionLimited, Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonNamespacesUnlimited,
		Message: fmt.Sprintf("%d of %d selected %s %s no ResourceQuota for a capped resource, so nothing limits it there: %s; create one in each, or set spec.default",
			len(unlimited), namespaces, noun, verb, strings.Join(named, ", "))}
}
