package quotaincrease

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/google/go-cmp/cmp"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// config is a configuration with a definition for each tier, called like it. One that ends in a question mark
// has a flaw, "*" is for all, and "!" has a selector that cannot be read, which is a flaw too.
func config(name string, tiers ...string) candidate {
	c := candidate{config: &openmcpv1alpha1.QuotaServiceConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	for _, tier := range tiers {
		definition, flaw := openmcpv1alpha1.QuotaDefinition{Name: tier}, ""
		if n := len(tier) - 1; tier[n] == '?' {
			definition.Name, flaw = tier[:n], "it is wrong"
		}
		switch definition.Name {
		case "*":
		case "!":
			definition.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "odd"}}}
			flaw = "its selector is wrong"
		default:
			definition.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": definition.Name}}
		}
		c.config.Spec.Quotas = append(c.config.Spec.Quotas, definition)
		c.flaws = append(c.flaws, flaw)
	}
	return c
}

func TestChoose(t *testing.T) {
	// gold is a namespace of that tier, which has its quota by a definition of a configuration.
	gold := func(config, definition string) labels.Set {
		return labels.Set{"tier": "gold", openmcpv1alpha1.LabelManagedBy: config, openmcpv1alpha1.LabelBase: definition}
	}
	tests := map[string]struct {
		reason     string
		namespace  labels.Set
		candidates []candidate
		want       string
		others     []string
	}{
		"None":          {"nobody has one for it", labels.Set{"tier": "gold"}, []candidate{config("a", "silver"), config("b")}, "", nil},
		"First":         {"the first that matches counts", labels.Set{"tier": "gold"}, []candidate{config("a", "silver", "gold", "*")}, "a/gold", nil},
		"All":           {"one without selector is for all", labels.Set{}, []candidate{config("a", "gold", "*")}, "a/*", nil},
		"ByName":        {"the first by name of those that come at once", labels.Set{"tier": "gold"}, []candidate{config("b", "gold"), config("a", "*")}, "a/*", []string{"b/gold"}},
		"Stays":         {"it stays where it is", gold("b", "gold"), []candidate{config("a", "*"), config("b", "gold")}, "b/gold", []string{"a/*"}},
		"StaysByOther":  {"also by another definition", gold("b", "silver"), []candidate{config("a", "*"), config("b", "silver", "gold")}, "b/gold", []string{"a/*"}},
		"Leaves":        {"it goes where its configuration has none", gold("b", "gold"), []candidate{config("a", "*"), config("b", "silver")}, "a/*", nil},
		"HolderIsGone":  {"or is gone", gold("b", "gold"), []candidate{config("a", "*")}, "a/*", nil},
		"Flawed":        {"one with a flaw is passed over", labels.Set{"tier": "gold"}, []candidate{config("a", "gold?", "*")}, "a/*", nil},
		"FlawedAlone":   {"or there is none", labels.Set{"tier": "gold"}, []candidate{config("a", "gold?")}, "", nil},
		"Kept":          {"who has it keeps it", gold("a", "gold"), []candidate{config("a", "gold?", "*")}, "a/gold as it is", nil},
		"KeptUnread":    {"also if nobody can tell whom it is for", gold("a", "!"), []candidate{config("a", "!", "*")}, "a/! as it is", nil},
		"KeptNoLonger":  {"but not if it is not for it any more", gold("a", "silver"), []candidate{config("a", "silver?", "*")}, "a/*", nil},
		"KeptFromOther": {"one of that name elsewhere is another", gold("b", "gold"), []candidate{config("a", "gold?", "*")}, "a/*", nil},
		"FlawedOther":   {"a flawed one does not want it", gold("b", "gold"), []candidate{config("a", "gold?"), config("b", "gold")}, "b/gold", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			chosen := choose(tt.namespace, tt.candidates)
			got := ""
			if m := chosen.match; m != nil {
				if got = m.config.Name + "/" + m.definition.Name; m.isFlawed {
					got += " as it is"
				}
			}
			var others []string
			for _, other := range chosen.others {
				others = append(others, other.config.Name+"/"+other.definition.Name)
			}
			if got != tt.want || !cmp.Equal(others, tt.others) {
				t.Errorf("%s: got %q and others %q, want %q and %q", tt.reason, got, others, tt.want, tt.others)
			}
		})
	}
}
