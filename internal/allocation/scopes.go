package allocation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Scopes identifies the objects counted by a ResourceQuota: two with the same Scopes count the same. It is empty for a
// ResourceQuota of all objects.
type Scopes string

// Text returns the scopes for people, such as "Terminating, BestEffort", or "" if there are none.
func (s Scopes) Text() string {
	requirements := strings.Split(string(s), "; ")
	for i := range requirements {
		requirements[i] = strings.TrimSuffix(requirements[i], " "+string(corev1.ScopeSelectorOpExists))
	}
	return strings.Join(requirements, ", ")
}

// ScopesOf returns the scopes of a spec. A name in scopes equals a requirement Exists in scopeSelector. The order means
// nothing.
func ScopesOf(spec *corev1.ResourceQuotaSpec) Scopes {
	requirements := sets.New[string]()
	for _, scope := range spec.Scopes {
		requirements.Insert(requirement(scope, corev1.ScopeSelectorOpExists, nil))
	}
	if spec.ScopeSelector != nil {
		for _, e := range spec.ScopeSelector.MatchExpressions {
			requirements.Insert(requirement(e.ScopeName, e.Operator, e.Values))
		}
	}
	return Scopes(strings.Join(sets.List(requirements), "; "))
}

func requirement(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values []string) string {
	if len(values) == 0 {
		return fmt.Sprintf("%s %s", scope, operator)
	}
	values = slices.Compact(slices.Sorted(slices.Values(values)))
	return fmt.Sprintf("%s %s %q", scope, operator, values)
}
