package increase

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// drawn is any input without anything held back, with amounts as numbers.
func drawn(t *rapid.T) (input Input, base map[corev1.ResourceName]int64, given []map[corev1.ResourceName]int64) {
	amounts := rapid.MapOf(rapid.SampledFrom([]corev1.ResourceName{secrets, configMaps, "pods"}), rapid.Int64Range(0, 20))
	base, given = amounts.Draw(t, "base"), rapid.SliceOfN(amounts, 0, 6).Draw(t, "increases")
	input.Base = hardOf(base)
	for i, each := range given {
		input.Increases = append(input.Increases, Increase{Name: fmt.Sprint("i", i), Hard: hardOf(each), Created: start})
	}
	return input, base, given
}

func hardOf(amounts map[corev1.ResourceName]int64) corev1.ResourceList {
	hard := corev1.ResourceList{}
	for name, amount := range amounts {
		hard[name] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
	return hard
}

func TestCumulativeIsTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		input, base, given := drawn(t)
		input.Mode = cumulative
		want := maps.Clone(base)
		for _, each := range given {
			for name, amount := range each {
				want[name] += amount
			}
		}
		result := Compute(input)
		if diff := cmp.Diff(listOf(hardOf(want)), listOf(result.Hard)); diff != "" {
			t.Fatalf("quota (-want +got):\n%s", diff)
		}
		for name, effect := range result.Effects {
			if !effect.IsEffective {
				t.Fatalf("%s has no effect", name)
			}
		}
	})
}

// Each resource has the highest amount, in any order of the increases. For each resource above the base, exactly one
// increase contributes: the first by name with that amount. An increase is effective exactly if it contributes.
func TestMaximumIsTheHighest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		input, base, given := drawn(t)
		input.Mode = maximum
		want, winners := maps.Clone(base), map[corev1.ResourceName]string{}
		for i, each := range given {
			for name, amount := range each {
				if amount > want[name] {
					want[name], winners[name] = amount, fmt.Sprint("i", i)
				}
			}
		}
		result := Compute(input)
		if diff := cmp.Diff(listOf(hardOf(want)), listOf(result.Hard)); diff != "" {
			t.Fatalf("quota (-want +got):\n%s", diff)
		}
		got := map[corev1.ResourceName]string{}
		for name, effect := range result.Effects {
			if effect.IsEffective != (len(effect.Hard) > 0) {
				t.Fatalf("%s contributes %v, and counts as effective: %t", name, effect.Hard, effect.IsEffective)
			}
			for of := range effect.Hard {
				got[of] = name
			}
		}
		if diff := cmp.Diff(winners, got); diff != "" {
			t.Fatalf("effective (-want +got):\n%s", diff)
		}
		input.Increases = rapid.Permutation(input.Increases).Draw(t, "order")
		if diff := cmp.Diff(result.Effects, Compute(input).Effects); diff != "" {
			t.Fatalf("effects in another order (-want +got):\n%s", diff)
		}
	})
}

// Holding back the next contribution never raises the resource. It ends with only the base left, after at most as many
// steps as there are increases. Two equal increases take two steps.
func TestHoldingBackEndsAtTheBase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		input, base, given := drawn(t)
		input.Mode = rapid.SampledFrom([]openmcpv1alpha1.QuotaMode{cumulative, maximum, singular}).Draw(t, "mode")
		input.Use, input.Held = "i0", map[Contribution]bool{}
		result := Compute(input)
		for steps := 0; ; steps++ {
			next, found := result.NextToHold(secrets)
			if !found {
				break
			}
			if steps >= len(given) {
				t.Fatalf("after %d steps %v is still to be held back", steps, next)
			}
			before, limited := result.Hard[secrets], len(result.Hard)
			input.Held[next] = true
			if result = Compute(input); len(result.Hard) < limited {
				t.Fatalf("without %v a resource has no limit any more: %v", next, result.Hard)
			}
			if after := result.Hard[secrets]; after.Cmp(before) > 0 {
				t.Fatalf("without %v there are %s, with it %s", next, after.String(), before.String())
			}
		}
		if got := result.Hard[secrets]; got.Value() != base[secrets] {
			t.Fatalf("%s are left, want %d", got.String(), base[secrets])
		}
	})
}
