package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

// Demand is what an object demands of one consumer by one policy.
type Demand struct {
	// Policy is the name of the policy.
	Policy   string
	Consumer quotav1alpha1.ConsumerRef
	// Charges have distinct pairs of resource type and dimensions. An amount of 0 is that of an object that demands
	// nothing now, for example of a finished Pod.
	Charges []ledger.Charge
}

// isPositive reports whether an amount is not 0.
func (d *Demand) isPositive() bool {
	return slices.ContainsFunc(d.Charges, func(c ledger.Charge) bool { return c.Amount > 0 })
}

// demand is shared by objects with equal demands. Only objects, their number, changes.
type demand struct {
	key     string
	parts   []Demand
	objects int
}

// equal reports whether two demands are the same. Either may be nil.
func (d *demand) equal(e *demand) bool { return d == e || d != nil && e != nil && d.key == e.key }

// of returns the charges to a consumer, by all policies. The demand may be nil.
func (d *demand) of(consumer quotav1alpha1.ConsumerRef) []ledger.Charge {
	if d == nil {
		return nil
	}
	var charges []ledger.Charge
	for i := range d.parts {
		if d.parts[i].Consumer == consumer {
			charges = append(charges, d.parts[i].Charges...)
		}
	}
	return charges
}

// keyOf returns a text that is the same for equal demands, in any order of consumers and charges.
func keyOf(parts []Demand) string {
	var key strings.Builder
	write := func(words ...string) {
		for _, word := range words {
			key.WriteString(strconv.Itoa(len(word)))
			key.WriteByte(':')
			key.WriteString(word)
		}
	}
	for _, part := range parts {
		write(part.Policy, part.Consumer.APIGroup, part.Consumer.Kind, part.Consumer.Namespace, part.Consumer.Name)
		for _, c := range part.Charges {
			write(c.ResourceType, strconv.FormatInt(int64(c.Amount), 10))
			for name, value := range c.Dimensions.All() { // their text for people is not unique
				write(name, value)
			}
			key.WriteByte(',')
		}
		key.WriteByte(';')
	}
	return key.String()
}

// inOrder returns the demands in the order of consumers and policies, and their charges by resource type and
// dimensions.
func inOrder(parts []Demand) []Demand {
	sorted := slices.Clone(parts)
	for i := range sorted {
		sorted[i].Charges = slices.SortedFunc(slices.Values(sorted[i].Charges), func(a, b ledger.Charge) int {
			return cmp.Or(cmp.Compare(a.ResourceType, b.ResourceType), a.Dimensions.Compare(b.Dimensions))
		})
	}
	slices.SortFunc(sorted, func(a, b Demand) int {
		return cmp.Or(naming.CompareConsumers(a.Consumer, b.Consumer), cmp.Compare(a.Policy, b.Policy))
	})
	return sorted
}

// consumersOf returns the consumers in one of two demands.
func consumersOf(before, after *demand) []quotav1alpha1.ConsumerRef {
	consumers := map[quotav1alpha1.ConsumerRef]struct{}{}
	for _, d := range []*demand{before, after} {
		if d != nil {
			for _, part := range d.parts {
				consumers[part.Consumer] = struct{}{}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(consumers), naming.CompareConsumers)
}
