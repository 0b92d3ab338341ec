package increase

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

const (
	secrets    = "count/secrets"
	configMaps = "count/configmaps"

	cumulative = openmcpv1alpha1.ModeCumulative
	maximum    = openmcpv1alpha1.ModeMaximum
	singular   = openmcpv1alpha1.ModeSingular
)

// list is a resource list of amounts as text.
type list map[corev1.ResourceName]string

func (l list) hard() corev1.ResourceList {
	hard := corev1.ResourceList{}
	for name, amount := range l {
		hard[name] = resource.MustParse(amount)
	}
	return hard
}

func listOf(hard corev1.ResourceList) list {
	l := list{}
	for name, amount := range hard {
		l[name] = amount.String()
	}
	return l
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// increases makes increases in the order of their names, each a second younger than the one before.
func increases(of map[string]list) []Increase {
	var all []Increase
	for name, amounts := range of {
		all = append(all, Increase{Name: name, Hard: amounts.hard()})
	}
	all = sorted(all)
	for i := range all {
		all[i].Created = start.Add(time.Duration(i) * time.Second)
	}
	return all
}

// document is the example in the document of the modes.
func document() []Increase {
	return increases(map[string]list{
		"small": {secrets: "5"}, "medium": {secrets: "50", configMaps: "10"}, "big": {secrets: "100"},
	})
}

func TestCompute(t *testing.T) {
	with := func(extra map[string]list) []Increase { return append(document(), increases(extra)...) }
	tests := map[string]struct {
		reason      string
		input       Input
		hard        list
		effects     map[string]string
		ineffective []string
	}{
		"Cumulative": {
			"everything is added up, and everything counts",
			Input{Mode: cumulative, Base: list{secrets: "10"}.hard(), Increases: document()},
			list{secrets: "165", configMaps: "10"},
			map[string]string{"small": "count/secrets: 5", "medium": "count/configmaps: 10, count/secrets: 50", "big": "count/secrets: 100"}, nil,
		},
		"Maximum": {
			"the highest counts; the medium one still does for configmaps",
			Input{Mode: maximum, Base: list{secrets: "10"}.hard(), Increases: document()},
			list{secrets: "100", configMaps: "10"},
			map[string]string{"small": "", "medium": "count/configmaps: 10", "big": "count/secrets: 100"}, []string{"small"},
		},
		"MaximumHigher": {
			"with a higher one the medium one has no effect any more",
			Input{Mode: maximum, Base: list{secrets: "10"}.hard(), Increases: with(map[string]list{"maps": {configMaps: "11"}})},
			list{secrets: "100", configMaps: "11"},
			map[string]string{"small": "", "medium": "", "big": "count/secrets: 100", "maps": "count/configmaps: 11"}, []string{"medium", "small"},
		},
		"MaximumTieLater": {
			"of those that give as much the first by name counts",
			Input{Mode: maximum, Base: list{secrets: "10"}.hard(), Increases: with(map[string]list{"zero": {configMaps: "10"}})},
			list{secrets: "100", configMaps: "10"},
			map[string]string{"small": "", "medium": "count/configmaps: 10", "big": "count/secrets: 100", "zero": ""}, []string{"small", "zero"},
		},
		"MaximumTieEarlier": {
			"whichever was there before",
			Input{Mode: maximum, Base: list{secrets: "10"}.hard(), Increases: with(map[string]list{"maps": {configMaps: "10"}})},
			list{secrets: "100", configMaps: "10"},
			map[string]string{"small": "", "medium": "", "big": "count/secrets: 100", "maps": "count/configmaps: 10"}, []string{"medium", "small"},
		},
		"MaximumTieButOther": {
			"the one that loses a tie may still count for something else",
			Input{Mode: maximum, Base: list{secrets: "10"}.hard(), Increases: with(map[string]list{"zero": {configMaps: "10", "pods": "1"}})},
			list{secrets: "100", configMaps: "10", "pods": "1"},
			map[string]string{"small": "", "medium": "count/configmaps: 10", "big": "count/secrets: 100", "zero": "pods: 1"}, []string{"small"},
		},
		"MaximumBaseHigher": {
			"as much as the base is no increase",
			Input{Mode: maximum, Base: list{secrets: "100"}.hard(), Increases: document()},
			list{secrets: "100", configMaps: "10"},
			map[string]string{"small": "", "medium": "count/configmaps: 10", "big": ""}, []string{"big", "small"},
		},
		"MaximumUnits": {
			"amounts are compared, not how they are written",
			Input{Mode: maximum, Base: list{"requests.memory": "1Gi"}.hard(), Increases: increases(map[string]list{"a": {"requests.memory": "1024Mi"}, "b": {"requests.memory": "2G"}})},
			list{"requests.memory": "2G"}, map[string]string{"a": "", "b": "requests.memory: 2G"}, []string{"a"},
		},
		"Singular": {
			"the one that is referred to counts alone",
			Input{Mode: singular, Base: list{secrets: "10"}.hard(), Increases: document(), Use: "medium"},
			list{secrets: "50", configMaps: "10"},
			map[string]string{"small": "", "medium": "[active] count/configmaps: 10, count/secrets: 50", "big": ""}, []string{"big", "small"},
		},
		"SingularSmall": {
			"it counts even if it changes nothing",
			Input{Mode: singular, Base: list{secrets: "10"}.hard(), Increases: document(), Use: "small"},
			list{secrets: "10"},
			map[string]string{"small": "[active]", "medium": "", "big": ""}, []string{"big", "medium"},
		},
		"SingularNone": {
			"without a reference there is the base",
			Input{Mode: singular, Base: list{secrets: "10"}.hard(), Increases: document()},
			list{secrets: "10"}, map[string]string{"small": "", "medium": "", "big": ""}, []string{"big", "medium", "small"},
		},
		"SingularDangling": {
			"a reference to nothing is none",
			Input{Mode: singular, Base: list{secrets: "10"}.hard(), Increases: document(), Use: "gone"},
			list{secrets: "10"}, map[string]string{"small": "", "medium": "", "big": ""}, []string{"big", "medium", "small"},
		},
		"NoBase": {
			"a template need not have amounts",
			Input{Mode: cumulative, Increases: document()},
			list{secrets: "155", configMaps: "10"},
			map[string]string{"small": "count/secrets: 5", "medium": "count/configmaps: 10, count/secrets: 50", "big": "count/secrets: 100"}, nil,
		},
		"Nothing": {"there may be nothing at all", Input{Mode: maximum}, list{}, map[string]string{}, nil},
		"NothingInMaximum": {
			"an increase by nothing locks nothing up",
			Input{Mode: maximum, Increases: increases(map[string]list{"a": {"pods": "0"}})}, list{}, map[string]string{"a": ""}, []string{"a"},
		},
		"Held": {
			"what is held back is not added",
			Input{Mode: cumulative, Base: list{secrets: "10"}.hard(), Increases: document(), Held: map[Contribution]bool{{"medium", secrets}: true}},
			list{secrets: "115", configMaps: "10"},
			map[string]string{"small": "count/secrets: 5", "medium": "count/configmaps: 10", "big": "count/secrets: 100"}, nil,
		},
		"HeldInMaximum": {
			"the next highest counts instead of what is held back",
			Input{Mode: maximum, Base: list{secrets: "10"}.hard(), Increases: document(), Held: map[Contribution]bool{{"big", secrets}: true}},
			list{secrets: "50", configMaps: "10"},
			map[string]string{"small": "", "medium": "count/configmaps: 10, count/secrets: 50", "big": ""}, []string{"big", "small"},
		},
		"HeldInSingular": {
			"what is referred to stays effective",
			Input{Mode: singular, Base: list{secrets: "10"}.hard(), Increases: document(), Use: "big", Held: map[Contribution]bool{{"big", secrets}: true}},
			list{secrets: "10"},
			map[string]string{"small": "", "medium": "", "big": "[active]"}, []string{"medium", "small"},
		},
		"AllHeld": {
			"an increase of which nothing is left has no effect, and what it names has no more than before, which is not the same as no limit",
			Input{Mode: cumulative, Increases: increases(map[string]list{"a": {secrets: "5"}}), Held: map[Contribution]bool{{"a", secrets}: true}},
			list{secrets: "0"}, map[string]string{"a": ""}, []string{"a"},
		},
		"Kept": {
			"a cap lowers nothing: the quota stays at what there was",
			Input{Mode: maximum, Base: list{secrets: "10"}.hard(), Increases: increases(map[string]list{"big": {secrets: "120"}, "small": {secrets: "20"}}),
				Held: map[Contribution]bool{{"big", secrets}: true}, Floor: list{secrets: "100"}.hard()},
			list{secrets: "100"}, map[string]string{"big": "", "small": "count/secrets: 20"}, []string{"big"},
		},
		"Fixed": {
			"what a cap sets is not added to",
			Input{Mode: cumulative, Base: list{secrets: "10", "pods": "1"}.hard(), Fixed: list{secrets: "3"}.hard(), Increases: increases(map[string]list{"a": {"pods": "1"}})},
			list{secrets: "3", "pods": "2"}, map[string]string{"a": "pods: 1"}, nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			result := Compute(tt.input)
			if diff := cmp.Diff(tt.hard, listOf(result.Hard)); diff != "" {
				t.Errorf("%s: quota (-want +got):\n%s", tt.reason, diff)
			}
			effects, ineffective := map[string]string{}, []string(nil)
			for _, each := range sorted(tt.input.Increases) {
				effects[each.Name] = result.Effects[each.Name].String()
				if !result.Effects[each.Name].IsEffective {
					ineffective = append(ineffective, each.Name)
				}
			}
			if diff := cmp.Diff(tt.effects, effects); diff != "" {
				t.Errorf("%s: effects (-want +got):\n%s", tt.reason, diff)
			}
			if diff := cmp.Diff(tt.ineffective, ineffective); diff != "" {
				t.Errorf("%s: ineffective (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func TestNext(t *testing.T) {
	tests := map[string]struct {
		reason string
		input  Input
		want   []string
	}{
		"Cumulative": {"the newest goes first", Input{Mode: cumulative, Base: list{secrets: "10"}.hard(), Increases: document()}, []string{"small", "medium", "big"}},
		"SameSecond": {"names decide between those of the same second", Input{Mode: cumulative, Increases: []Increase{
			{Name: "b", Hard: list{secrets: "1"}.hard()}, {Name: "a", Hard: list{secrets: "1"}.hard()},
		}}, []string{"b", "a"}},
		"Zero":     {"to hold back nothing is no help", Input{Mode: cumulative, Increases: increases(map[string]list{"a": {secrets: "0"}})}, nil},
		"Maximum":  {"what the quota is goes first", Input{Mode: maximum, Base: list{secrets: "10"}.hard(), Increases: document()}, []string{"big", "medium"}},
		"Singular": {"only what is referred to counts", Input{Mode: singular, Base: list{secrets: "10"}.hard(), Increases: document(), Use: "medium"}, []string{"medium"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			tt.input.Held = map[Contribution]bool{}
			for {
				next, found := Compute(tt.input).NextToHold(secrets)
				if !found {
					break
				}
				got = append(got, next.Increase)
				tt.input.Held[next] = true
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func TestComposition(t *testing.T) {
	many := map[string]list{}
	for _, c := range "abcdefghijklmnopqrstuvwxy" {
		many[string(c)] = list{secrets: "1"}
	}
	tests := map[string]struct {
		reason string
		input  Input
		want   string
	}{
		"Cumulative": {"a sum", Input{Mode: cumulative, Base: list{secrets: "10"}.hard(), Increases: document()},
			"count/configmaps: 10 = medium 10; count/secrets: 165 = base 10 + big 100 + medium 50 + small 5"},
		"Maximum": {"a choice", Input{Mode: maximum, Base: list{secrets: "10"}.hard(), Increases: document()},
			"count/configmaps: 10 = medium 10; count/secrets: 100 = highest of base 10, big 100, medium 50, small 5"},
		"Singular": {"of two", Input{Mode: singular, Base: list{secrets: "10"}.hard(), Increases: document(), Use: "small"},
			"count/secrets: 10 = highest of base 10, small 5"},
		"Base": {"nothing but the base", Input{Mode: singular, Base: list{secrets: "10"}.hard(), Increases: document()}, "count/secrets: 10 = base 10"},
		"Held": {"what a cap holds back is told", Input{Mode: cumulative, Base: list{secrets: "10"}.hard(), Increases: document(), Held: map[Contribution]bool{{"small", secrets}: true}},
			"count/configmaps: 10 = medium 10; count/secrets: 160 = base 10 + big 100 + medium 50 (held back by a cap: small 5)"},
		"Fixed": {"as is a cap on the base", Input{Mode: cumulative, Base: list{secrets: "10"}.hard(), Fixed: list{secrets: "0"}.hard()},
			"count/secrets: 0 as a cap allows no more (held back by a cap: base 10)"},
		"Many": {"there is an end to it", Input{Mode: cumulative, Increases: increases(many)},
			"count/secrets: 25 = a 1 + b 1 + c 1 + d 1 + e 1 + f 1 + g 1 + h 1 + i 1 + j 1 + k 1 + l 1 + m 1 + n 1 + o 1 + p 1 + q 1 + r 1 + s 1 + t 1 + 5 more"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Text(Compute(tt.input).Composition())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}
