package quotaincrease

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	"github.com/bursar/bursar/internal/increase"
)

// candidate is a configuration with the validity of each of its definitions.
type candidate struct {
	config     *openmcpv1alpha1.QuotaServiceConfig
	validities []validity
}

// match is the definition of a configuration for a namespace.
type match struct {
	config     *openmcpv1alpha1.QuotaServiceConfig
	definition *openmcpv1alpha1.QuotaDefinition
	// validity is the validity of the definition. Until it is valid, the namespace does not change.
	validity validity
}

// choice is the chosen definition for a namespace, or nil, and the matches of other configurations.
type choice struct {
	match  *match
	others []match
}

// choose chooses the definition for a namespace with these labels. It keeps the first holder with a definition for the
// namespace, and otherwise takes the first configuration by name.
func choose(of labels.Set, holders []holder, candidates []candidate) choice {
	var matches []match
	for _, each := range slices.SortedFunc(slices.Values(candidates), func(a, b candidate) int { return cmp.Compare(a.config.Name, b.config.Name) }) {
		if m, found := each.match(of, holders); found {
			matches = append(matches, m)
		}
	}
	if len(matches) == 0 {
		return choice{}
	}
	at := 0
	for _, h := range slices.Backward(holders) {
		if i := slices.IndexFunc(matches, func(m match) bool { return m.config.Name == h.config }); i >= 0 {
			at = i
		}
	}
	return choice{match: &matches[at], others: slices.Delete(slices.Clone(matches), at, at+1)}
}

// match returns the first definition for a namespace. It skips an invalid definition, unless the namespace has its
// quota from it.
func (c candidate) match(of labels.Set, holders []holder) (found match, ok bool) {
	for i := range c.config.Spec.Quotas {
		definition, result := &c.config.Spec.Quotas[i], c.validities[i]
		selector, err := increase.Selector(definition)
		selects := err == nil && selector.Matches(of)
		isHolder := slices.Contains(holders, holder{c.config.Name, definition.Name})
		if selects && (result.state != invalid || isHolder) || err != nil && isHolder {
			return match{c.config, definition, result}, true
		}
	}
	return match{}, false
}

// holder names a configuration and a definition in it.
type holder struct{ config, definition string }

// holdersOf returns the definitions behind the quota of a namespace: the one in its labels and, because users may
// remove labels, those in its generated ResourceQuotas.
func holdersOf(namespace *metav1.PartialObjectMetadata, quotas []corev1.ResourceQuota) []holder {
	var holders []holder
	if config, definition := namespace.Labels[openmcpv1alpha1.LabelManagedBy], namespace.Labels[openmcpv1alpha1.LabelBase]; config != "" {
		holders = append(holders, holder{config, definition})
	}
	for i := range quotas {
		if q := &quotas[i]; q.DeletionTimestamp == nil && isLabelled(q) {
			holders = append(holders, holder{q.Labels[openmcpv1alpha1.LabelManagedBy], q.Name})
		}
	}
	return holders
}

// isForeign reports whether another operator manages a namespace: its label names no known configuration, and Bursar
// generated none of its ResourceQuotas from a configuration of that name, such as a deleted one. So an author hands a
// namespace over by the label.
func isForeign(namespace *metav1.PartialObjectMetadata, quotas []corev1.ResourceQuota, candidates []candidate) bool {
	manager := namespace.Labels[openmcpv1alpha1.LabelManagedBy]
	isMadeHere := func(q corev1.ResourceQuota) bool {
		_, isExplained := q.Annotations[openmcpv1alpha1.AnnotationComposition]
		return isExplained && isLabelled(&q) && q.Labels[openmcpv1alpha1.LabelManagedBy] == manager
	}
	return manager != "" && !slices.ContainsFunc(candidates, func(c candidate) bool { return c.config.Name == manager }) && !slices.ContainsFunc(quotas, isMadeHere)
}
