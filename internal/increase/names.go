package increase

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/bursar/bursar/internal/allocation"
)

// Names are the names under which a ResourceQuota limits resources that Kubernetes counts under two names, by either
// name. The base may name count/secrets, and an increase secrets: under both names the ResourceQuota would have two
// limits, and the lower one would bind in spite of the increase.
type Names map[corev1.ResourceName]corev1.ResourceName

// NamesOf returns the names in the base or, without one there, in the first of the increases by name.
func NamesOf(base corev1.ResourceList, increases []Increase) Names {
	names := Names{}
	names.add(base)
	for _, each := range sorted(increases) {
		names.add(each.Hard)
	}
	return names
}

func (n Names) add(hard corev1.ResourceList) {
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		other, hasOther := allocation.OtherName(name)
		if _, isKnown := n[name]; hasOther && !isKnown {
			n[name], n[other] = name, name
		}
	}
}

// Of returns amounts under these names. Of two amounts for one resource the lower one counts, as in a ResourceQuota. It
// does not change hard.
func (n Names) Of(hard corev1.ResourceList) corev1.ResourceList {
	named := corev1.ResourceList{}
	for name, amount := range hard {
		if chosen, isChosen := n[name]; isChosen {
			name = chosen
		}
		if before, isTwice := named[name]; !isTwice || amount.Cmp(before) < 0 {
			named[name] = amount
		}
	}
	return named
}
