package importer

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Limit is a limit of a former system: the sum over some namespaces, for objects in some scopes.
type Limit struct {
	// From names the object of the former system, such as "ResourceQuota web/compute".
	From string
	// Consumer is the name of the consumer made of it, and Namespace is the namespace that shows its quota.
	Consumer, Namespace string
	// Scopes restrict it to some Pods.
	Scopes []corev1.ScopedResourceSelectorRequirement
	// Hard are the amounts.
	Hard corev1.ResourceList
	// Select selects the counted namespaces.
	Select Selection
}

// Selection selects namespaces by labels and annotations. If both are nil, it selects the namespace that shows the
// consumer's quota.
type Selection struct {
	Labels      *metav1.LabelSelector
	Annotations map[string]string
}

// isOwn reports whether the selection is only the namespace that shows the consumer's quota.
func (s Selection) isOwn() bool { return s.Labels == nil && s.Annotations == nil }

// matches reports whether the selection selects a namespace.
func (s Selection) matches(namespace metav1.Object) (bool, error) {
	for key, value := range s.Annotations {
		if found, isSet := namespace.GetAnnotations()[key]; !isSet || found != value {
			return false, nil
		}
	}
	if s.Labels == nil {
		return true, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Labels)
	return err == nil && selector.Matches(labels.Set(namespace.GetLabels())), err
}

// conditions returns the selection in CEL. root has the metadata of the namespace.
func (s Selection) conditions(root string) []string {
	var all []string
	for _, key := range sortedKeys(s.Annotations) {
		all = append(all, equals(root+".metadata.?annotations", key, s.Annotations[key]))
	}
	if s.Labels == nil {
		return all
	}
	at := root + ".metadata.?labels"
	for _, key := range sortedKeys(s.Labels.MatchLabels) {
		all = append(all, equals(at, key, s.Labels.MatchLabels[key]))
	}
	for _, e := range s.Labels.MatchExpressions {
		value := fmt.Sprintf("%s[?%q]", at, e.Key)
		isIn := fmt.Sprintf("%s.hasValue() && %s.value() in [%s]", value, value, quoted(e.Values))
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			all = append(all, isIn)
		case metav1.LabelSelectorOpNotIn:
			all = append(all, "!("+isIn+")")
		case metav1.LabelSelectorOpExists:
			all = append(all, value+".hasValue()")
		default:
			all = append(all, "!"+value+".hasValue()")
		}
	}
	return all
}

func equals(at, key, value string) string {
	return fmt.Sprintf("%s[?%q].hasValue() && %s[?%q].value() == %q", at, key, at, key, value)
}

func quoted(values []string) string {
	all := make([]string, 0, len(values))
	for _, value := range values {
		all = append(all, fmt.Sprintf("%q", value))
	}
	return strings.Join(all, ", ")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Note is a part of the former system without an equivalent, or with a difference in counting.
type Note struct {
	// What names the part, such as "ResourceQuota web/compute: resourcequotas".
	What string `json:"what"`
	// Why explains the difference, and the alternative.
	Why string `json:"why"`
}

// ObjectRef names an object of the former system.
func objectRef(kind, namespace, name string) string {
	return kind + " " + strings.TrimPrefix(namespace+"/"+name, "/")
}
