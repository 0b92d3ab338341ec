// Package increase computes the ResourceQuota of a namespace from a base, the increases in the namespace, and a mode.
// It is pure: no clock, no goroutines, no requests.
//
//   - cumulative: for each resource, the sum of the base and all increases. Every increase has an effect.
//   - maximum: for each resource, the highest amount of the base and all increases. An increase has an effect on
//     a resource if it gives more than the base, as much as any other increase, and is the first of these by name.
//   - singular: like maximum, for the base and one referenced increase. That one always counts as effective, and no
//     other does.
//
// A resource without a limit in the base counts as 0 there. If no amount exceeds 0, the resource stays unlimited,
// except in cumulative mode, where an increase by 0 is a limit of 0.
//
// If a cap allows less, the caller holds back contributions one by one: [Result.NextToHold] returns the next one, and
// [Input.Held] takes them.
//
// The webhook in package validate and the controller of quota increases import it.
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
	// Created is the creation time, which orders increases.
	Created time.Time
	// Hard are the amounts of the increase. No amount is negative.
	Hard corev1.ResourceList
}

// Contribution is the contribution of one increase to one resource.
type Contribution struct {
	Increase string
	Resource corev1.ResourceName
}

// Input is the input of [Compute]. Compute does not change it.
type Input struct {
	Mode openmcpv1alpha1.QuotaMode
	// Base are the amounts without increases.
	Base corev1.ResourceList
	// Increases are those of the namespace, in any order.
	Increases []Increase
	// Names are the names of resources in the quota. Base and Increases have these names.
	Names Names
	// Use names the increase that counts in singular mode; it need not exist.
	Use string
	// Held are the contributions not allowed by a cap.
	Held map[Contribution]bool
	// Fixed are the amounts of resources with a base above a cap.
	Fixed corev1.ResourceList
	// Floor are the minimum amounts of capped resources: the previous amounts, up to the full ones. A cap keeps a quota
	// from rising, and never lowers it.
	Floor corev1.ResourceList
}

// Result is a computed quota.
type Result struct {
	// Hard is the whole quota. It is empty if neither the base nor an increase names a resource.
	Hard corev1.ResourceList
	// Effects has an entry for each increase, by name.
	Effects map[string]Effect

	input Input
	// atFloor are the resources with the amount of their floor.
	atFloor map[corev1.ResourceName]bool
}

// Effect is the effect of an increase.
type Effect struct {
	// Hard are the contributed amounts: in cumulative mode all, otherwise those in the quota.
	Hard corev1.ResourceList
	// IsEffective is set if the increase counts as effective. In singular mode that does not require a contribution.
	IsEffective bool
	// IsUsed is set if singular mode refers to this increase.
	IsUsed bool
	// Held are the resources with a held-back contribution, in order.
	Held []corev1.ResourceName
}

// Compute computes a quota.
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

// applyFloor raises resources to their floor. It adds held-back resources missing from the quota, because a missing
// resource has no limit.
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

// WithoutCaps returns the input with no contribution held back.
func (i Input) WithoutCaps() Input {
	i.Held, i.Fixed, i.Floor = nil, nil, nil
	return i
}

// updateEffectiveness marks increases without a remaining contribution as ineffective.
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

// takeHighest raises each resource to the highest amount of an increase.
func (r Result) takeHighest() {
	winners := map[corev1.ResourceName]string{}
	for _, each := range sorted(r.input.Increases) {
		for name, amount := range r.countedOf(each) {
			if current := r.Hard[name]; amount.Cmp(current) > 0 { // the first of equal amounts wins
				r.Hard[name], winners[name] = amount, each.Name
			}
		}
	}
	for name, winner := range winners {
		r.Effects[winner].Hard[name] = r.Hard[name]
	}
}

// countedOf returns the amounts of an increase that may count: in singular mode only of the referenced one, and never a
// held-back amount.
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

// NextToHold returns the contribution to hold back next if there is too much of a resource. In cumulative mode it is
// the contribution of the newest increase, otherwise the one behind the amount of the quota. It reports false if no
// increase has an effect on the resource.
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

// Negative returns the first resource, in order, with a negative amount.
func Negative(hard corev1.ResourceList) (name corev1.ResourceName, amount resource.Quantity, found bool) {
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		if amount := hard[name]; amount.Sign() < 0 {
			return name, amount, true
		}
	}
	return "", resource.Quantity{}, false
}
