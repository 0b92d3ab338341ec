package quotaincrease

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	"github.com/bursar/bursar/internal/increase"
)

// candidate is a configuration with what is wrong with each of its definitions, which is empty where they
// can be used.
type candidate struct {
	config *openmcpv1alpha1.QuotaServiceConfig
	flaws  []string
}

// match is the definition that a configuration has for a namespace.
type match struct {
	config     *openmcpv1alpha1.QuotaServiceConfig
	definition *openmcpv1alpha1.QuotaDefinition
	// isFlawed tells that the namespace has its quota by the definition, and the definition cannot be used
	// as it is now. The namespace is then left as it is.
	isFlawed bool
}

// choice is the definition that a namespace has, or nil, and those that other configurations have for it.
type choice struct {
	match  *match
	others []match
}

// choose finds the definition for a namespace with these labels. It stays with the configuration that it is
// labelled with while that has one for it, and otherwise goes to the first by name.
func choose(of labels.Set, candidates []candidate) choice {
	var matches []match
	for _, each := range slices.SortedFunc(slices.Values(candidates), func(a, b candidate) int { return cmp.Compare(a.config.Name, b.config.Name) }) {
		if m, found := each.match(of); found {
			matches = append(matches, m)
		}
	}
	if len(matches) == 0 {
		return choice{}
	}
	at := max(0, slices.IndexFunc(matches, func(m match) bool { return m.config.Name == of[openmcpv1alpha1.LabelManagedBy] }))
	return choice{match: &matches[at], others: slices.Delete(slices.Clone(matches), at, at+1)}
}

// match finds the first definition that selects a namespace. One with a flaw is passed over, unless the
// namespace has its quota by it.
func (c candidate) match(of labels.Set) (found match, ok bool) {
	for i := range c.config.Spec.Quotas {
		definition := &c.config.Spec.Quotas[i]
		selector, err := increase.Selector(definition)
		selects := err == nil && selector.Matches(of)
		if c.flaws[i] == "" {
			if selects {
				return match{config: c.config, definition: definition}, true
			}
			continue
		}
		isCurrent := of[openmcpv1alpha1.LabelManagedBy] == c.config.Name && of[openmcpv1alpha1.LabelBase] == definition.Name
		if isCurrent && (selects || err != nil) {
			return match{config: c.config, definition: definition, isFlawed: true}, true
		}
	}
	return match{}, false
}
