package increase

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// partsMax bounds the increases that a composition names.
const partsMax = 20

// String returns an effect as the annotation of an increase has it: its amounts in the order of the resources, after a
// word for the increase referenced in singular mode.
func (e Effect) String() string {
	var amounts []string
	for _, name := range slices.Sorted(maps.Keys(e.Hard)) {
		amount := e.Hard[name]
		amounts = append(amounts, fmt.Sprintf("%s: %s", name, amount.String()))
	}
	text := strings.Join(amounts, ", ")
	if e.IsUsed {
		return strings.TrimSuffix(openmcpv1alpha1.EffectActive+" "+text, " ")
	}
	return text
}

// Composition returns the composition of each resource's amount, such as "count/secrets: 165 = base 10 + big 100 +
// medium 50 + small 5".
func (r Result) Composition() map[corev1.ResourceName]string {
	composition := map[corev1.ResourceName]string{}
	for name := range r.Hard {
		composition[name] = r.compositionOf(name)
	}
	return composition
}

func (r Result) compositionOf(name corev1.ResourceName) string {
	amount := r.Hard[name]
	parts, held := r.partsOf(name)
	text := fmt.Sprintf("%s: %s", name, amount.String())
	switch {
	case r.isCapped(name):
		text += " as a cap allows no more"
	case r.input.Mode == openmcpv1alpha1.ModeCumulative:
		text += " = " + join(parts, " + ")
	case len(parts) == 1:
		text += " = " + parts[0]
	default:
		text += " = highest of " + join(parts, ", ")
	}
	if len(held) > 0 {
		text += " (held back by a cap: " + join(held, ", ") + ")"
	}
	return text
}

// isCapped reports whether only a cap determines the amount of a resource.
func (r Result) isCapped(name corev1.ResourceName) bool {
	_, isFixed := r.input.Fixed[name]
	return isFixed || r.atFloor[name]
}

// partsOf returns the parts of a resource's amount, and the parts that a cap holds back: the base, and the increases in
// descending order.
func (r Result) partsOf(name corev1.ResourceName) (parts, held []string) {
	fixed, isFixed := r.input.Fixed[name]
	if base, limited := r.input.Base[name]; limited && isFixed && fixed.Cmp(base) < 0 {
		held = append(held, "base "+base.String())
	} else if limited && !isFixed {
		parts = append(parts, "base "+base.String())
	}
	increases := slices.SortedStableFunc(slices.Values(sorted(r.input.Increases)), func(a, b Increase) int {
		x, y := a.Hard[name], b.Hard[name]
		return -x.Cmp(y)
	})
	for _, each := range increases {
		given, gives := each.Hard[name]
		counts := r.input.Mode != openmcpv1alpha1.ModeSingular || each.Name == r.input.Use
		switch part := each.Name + " " + given.String(); {
		case !gives || !counts:
		case r.input.Held[Contribution{each.Name, name}]:
			held = append(held, part)
		case !r.isCapped(name):
			parts = append(parts, part)
		}
	}
	return parts, held
}

// join joins parts, and counts the parts beyond partsMax.
func join(parts []string, separator string) string {
	if more := len(parts) - partsMax; more > 0 {
		parts = append(slices.Clone(parts[:partsMax]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, separator)
}

// Text returns a composition in one line, in the order of the resources.
func Text(composition map[corev1.ResourceName]string) string {
	names := slices.SortedFunc(maps.Keys(composition), func(a, b corev1.ResourceName) int { return cmp.Compare(a, b) })
	text := make([]string, len(names))
	for i, name := range names {
		text[i] = composition[name]
	}
	return strings.Join(text, "; ")
}
