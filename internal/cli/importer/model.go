package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Limit is a limit of a former system: the sum over some namespaces, for objects in some scopes. An imported grant has
// its limits as JSON, so a later import knows them without the former system.
type Limit struct {
	// From names the object of the former system, such as "ResourceQuota web/compute".
	From string `json:"from"`
	// Consumer is the name of the consumer made of it, and Namespace is the namespace that shows its quota.
	Consumer  string `json:"consumer"`
	Namespace string `json:"namespace"`
	// Scopes restrict it to some Pods.
	Scopes []corev1.ScopedResourceSelectorRequirement `json:"scopes,omitempty"`
	// Hard are the amounts.
	Hard corev1.ResourceList `json:"hard"`
	// Select selects the counted namespaces.
	Select Selection `json:"select,omitzero"`

	// kept are the present amounts, by resource type, of a limit whose object is gone. Nil for all others.
	kept map[string]int64
}

// Selection selects namespaces by labels and annotations. Without both, it selects the namespace that shows the
// consumer's quota.
type Selection struct {
	Labels      *metav1.LabelSelector `json:"labels,omitempty"`
	Annotations map[string]string     `json:"annotations,omitempty"`
}

// isOwn reports whether the selection is only the namespace that shows the consumer's quota.
func (s Selection) isOwn() bool { return s.Labels == nil && len(s.Annotations) == 0 }

// isEmpty reports whether the selection has no condition.
func (s Selection) isEmpty() bool { return len(s.conditions("")) == 0 }

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

const (
	// conditionsMax is how many conditions a policy may have, and expressionMax the length of its longest expression.
	conditionsMax, expressionMax = 10, 1024
)

// joined returns conditions within the bounds of a policy. It joins several to one if there are too many.
func joined(conditions []string) ([]string, error) {
	const parentheses, and = "()", " && "
	var few []string
	for _, condition := range conditions {
		if utf8.RuneCountInString(condition)+len(parentheses) > expressionMax {
			return nil, fmt.Errorf("a policy cannot select its objects by a condition of more than %d characters", expressionMax)
		}
		condition = "(" + condition + ")"
		last := len(few) - 1
		if last >= 0 && utf8.RuneCountInString(few[last]+and+condition) <= expressionMax {
			few[last] += and + condition
			continue
		}
		few = append(few, condition)
	}
	switch {
	case len(conditions) <= conditionsMax:
		return conditions, nil
	case len(few) > conditionsMax:
		return nil, fmt.Errorf("a policy cannot select its objects by %d conditions of %d characters", len(few), expressionMax)
	default:
		return few, nil
	}
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

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

// Note is a part of the former system without an equivalent, or with a difference in counting.
type Note struct {
	// What names the part, such as "ResourceQuota web/compute: resourcequotas".
	What string `json:"what"`
	// Why explains the difference, and the alternative.
	Why string `json:"why"`
}

// objectRef names an object, such as "ResourceQuota web/compute".
func objectRef(kind, namespace, name string) string {
	return kind + " " + strings.TrimPrefix(namespace+"/"+name, "/")
}
