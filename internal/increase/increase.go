// Package increase works out what the ResourceQuota of a namespace is made of: a base, the increases in the
// namespace, and the mode in which these work together. It is pure: no clock, no goroutines, no requests.
//
//   - cumulative: of each resource, the sum of the base and all increases. Every increase has an effect.
//   - maximum: of each resource, the highest amount of the base and all increases. An increase has an effect on
//     a resource if it gives more than the base, as much as any other increase, and is the first by name of
//     those that give as much.
//   - singular: as maximum, of the base and one increase that is referred to. That one counts as effective
//     whatever it gives, and no other does.
//
// A resource that the base does not limit counts as 0 there; one that nothing gives more than 0 of stays without
// limit, except in cumulative mode, where an increase by 0 is a limit of 0 as the sum says.
//
// Where a cap allows less, contributions are held back one by one: [Result.NextToHold] says which is to be
// next, and [Input.Held] takes them.
package increase

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	quota "k8s.io/apiserver/pkg/quota/v1"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// Increase is a QuotaIncrease that counts.
type Increase struct {
	// Name is unique among the increases of a namespace.
	Name string
	// Created tells which of them came last.
	Created time.Time
	// Hard is what it gives. No amount is negative.
	Hard corev1.ResourceList
}

// Contribution is what one increase gives of one resource.
type Contribution struct {
	Increase string
	Resource corev1.ResourceName
}

// Input is what a quota is made from. None of it is changed.
type Input struct {
	Mode openmcpv1alpha1.QuotaMode
	// Base is what there is without increases.
	Base corev1.ResourceList
	// Increases are those of the namespace, in any order.
	Increases []Increase
	// Use names the increase that counts in singular mode; it need not exist.
	Use string
	// Held are the contributions that are left out, because a cap does not allow them.
	Held map[Contribution]bool
	// Fixed are the resources of which a cap does not even allow the base, with what they have instead.
	Fixed corev1.ResourceList
	// Floor are the resources of which a cap does not allow all, with what they have at least: what there was before,
	// as far as it is not more than all. A cap keeps a quota from rising, and lowers none.
	Floor corev1.ResourceList
}

// Result is what a quota is made of.
type Result struct {
	// Hard is the whole quota. It is empty where neither the base nor an increase names a resource.
	Hard corev1.ResourceList
	// Effects has an entry for each increase, by name.
	Effects map[string]Effect

	input Input
	// kept are the resources that have what there was before.
	atFloor map[corev1.ResourceName]bool
}

// Effect is what an increase does.
type Effect struct {
	// Hard is what it contributes: in cumulative mode its amounts, otherwise those of them that became the
	// quota's.
	Hard corev1.ResourceList
	// IsEffective tells whether it counts as effective, which in singular mode it may without contributing.
	IsEffective bool
	// IsUsed tells whether it is the one that singular mode refers to.
	IsUsed bool
	// Held are the resources of which its contribution is held back, in order.
	Held []corev1.ResourceName
}

// Compute returns what a quota is made of.
func Compute(input Input) Result {
	result := Result{Hard: corev1.ResourceList{}, Effects: map[string]Effect{}, input: input, atFloor: map[corev1.ResourceName]bool{}}
	maps.Copy(result.Hard, input.Base)
	for _, each := range sorted(input.Increases) {
		isUsed := input.Mode == openmcpv1alpha1.ModeSingular && each.Name == input.Use
		result.Effects[each.Name] = Effect{
			Hard: corev1.ResourceList{}, IsUsed: isUsed, Held: result.heldOf(each),
			IsEffective: isUsed || input.Mode == openmcpv1alpha1.ModeCumulative,
		}
		counted := result.countedOf(each)
		if input.Mode == openmcpv1alpha1.ModeCumulative {
			result.Hard = quota.Add(result.Hard, counted)
			maps.Copy(result.Effects[each.Name].Hard, counted)
		}
	}
	if input.Mode != openmcpv1alpha1.ModeCumulative {
		result.takeHighest()
	}
	for name, amount := range input.Fixed {
		result.Hard[name] = amount
		for _, effect := range result.Effects {
			delete(effect.Hard, name)
		}
	}
	result.applyFloor()
	result.updateEffectiveness()
	return result
}

// keep sees to it that holding back lowers no resource below what it is to have at least, and leaves none out:
// one that the quota does not name has no limit.
func (r Result) applyFloor() {
	for name, amount := range r.input.Floor {
		if current, isLimited := r.Hard[name]; !isLimited || current.Cmp(amount) < 0 {
			r.Hard[name], r.atFloor[name] = amount, true
		}
	}
	for _, effect := range r.Effects {
		for _, name := range effect.Held {
			if _, isLimited := r.Hard[name]; !isLimited {
				r.Hard[name], r.atFloor[name] = *resource.NewQuantity(0, resource.DecimalSI), true
			}
		}
	}
}

// WithoutCaps is the input with nothing held back.
func (i Input) WithoutCaps() Input {
	i.Held, i.Fixed, i.Floor = nil, nil, nil
	return i
}

// weigh takes the effectiveness from increases of which nothing is left.
func (r Result) updateEffectiveness() {
	for name, effect := range r.Effects {
		switch r.input.Mode {
		case openmcpv1alpha1.ModeMaximum:
			effect.IsEffective = len(effect.Hard) > 0
		case openmcpv1alpha1.ModeCumulative:
			effect.IsEffective = len(effect.Hard) > 0 || len(effect.Held) == 0
		}
		r.Effects[name] = effect
	}
}

// takeHighest raises each resource to the highest amount that an increase gives.
func (r Result) takeHighest() {
	winners := map[corev1.ResourceName]string{}
	for _, each := range sorted(r.input.Increases) {
		for name, amount := range r.countedOf(each) {
			if current := r.Hard[name]; amount.Cmp(current) > 0 { // the first of those that give as much stays
				r.Hard[name], winners[name] = amount, each.Name
			}
		}
	}
	for name, winner := range winners {
		r.Effects[winner].Hard[name] = r.Hard[name]
	}
}

// countedOf is what an increase gives that may count: in singular mode nothing but of the one referred to,
// and never what is held back or fixed.
func (r Result) countedOf(each Increase) corev1.ResourceList {
	counted := corev1.ResourceList{}
	if r.input.Mode == openmcpv1alpha1.ModeSingular && each.Name != r.input.Use {
		return counted
	}
	for name, amount := range each.Hard {
		if !r.input.Held[Contribution{each.Name, name}] {
			counted[name] = amount
		}
	}
	return counted
}

func (r Result) heldOf(each Increase) []corev1.ResourceName {
	var held []corev1.ResourceName
	for name := range each.Hard {
		if r.input.Held[Contribution{each.Name, name}] {
			held = append(held, name)
		}
	}
	slices.Sort(held)
	return held
}

// NextToHold returns the contribution that is to be held back next where there is too much of a resource: in
// cumulative mode that of the newest increase, otherwise the one that the quota is. There is none where
// no increase has an effect on the resource.
func (r Result) NextToHold(name corev1.ResourceName) (next Contribution, found bool) {
	var newest time.Time
	for _, each := range sorted(r.input.Increases) {
		amount, contributes := r.Effects[each.Name].Hard[name]
		if contributes && amount.Sign() > 0 && (!found || !each.Created.Before(newest)) {
			next, newest, found = Contribution{each.Name, name}, each.Created, true
		}
	}
	return next, found
}

// sorted returns increases in the order of their names.
func sorted(increases []Increase) []Increase {
	return slices.SortedFunc(slices.Values(increases), func(a, b Increase) int { return cmp.Compare(a.Name, b.Name) })
}

// Negative returns the first resource, in order, of which there is less than nothing.
func Negative(hard corev1.ResourceList) (name corev1.ResourceName, amount resource.Quantity, found bool) {
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		if amount := hard[name]; amount.Sign() < 0 {
			return name, amount, true
		}
	}
	return "", resource.Quantity{}, false
}
