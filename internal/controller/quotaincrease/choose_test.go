package quotaincrease

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/google/go-cmp/cmp"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// config is a configuration with a definition for each tier, named after it. A definition with a question mark at the
// end of its name is invalid, with a tilde undetermined. "*" is for all, and "!" has an invalid selector.
func config(name string, tiers ...string) candidate {
	c := candidate{config: &openmcpv1alpha1.QuotaServiceConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	for _, tier := range tiers {
		definition, of := openmcpv1alpha1.QuotaDefinition{Name: strings.TrimRight(tier, "?~")}, validity{}
		switch tier[len(tier)-1] {
		case '?':
			of.state = invalid
		case '~':
			of.state = undetermined
		}
		switch definition.Name {
		case "*":
		case "!":
			definition.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "odd"}}}
			of.state = invalid
		default:
			definition.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": definition.Name}}
		}
		c.config.Spec.Quotas = append(c.config.Spec.Quotas, definition)
		c.validities = append(c.validities, of)
	}
	return c
}

func TestChoose(t *testing.T) {
	// gold is a namespace of tier gold. It names its current definition in two ways: by its own labels, or by those of
	// a generated ResourceQuota.
	gold := func(config, definition string) labels.Set {
		return labels.Set{"tier": "gold", openmcpv1alpha1.LabelManagedBy: config, openmcpv1alpha1.LabelBase: definition}
	}
	onQuota := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{
		Name: "gold", Labels: map[string]string{openmcpv1alpha1.LabelManagedBy: "b", openmcpv1alpha1.LabelDefinition: "gold"},
	}}
	tests := map[string]struct {
		reason     string
		namespace  labels.Set
		candidates []candidate
		quotas     []corev1.ResourceQuota
		want       string
		others     []string
	}{
		"None":          {"nobody has one for it", labels.Set{"tier": "gold"}, []candidate{config("a", "silver"), config("b")}, nil, "", nil},
		"First":         {"the first that matches counts", labels.Set{"tier": "gold"}, []candidate{config("a", "silver", "gold", "*")}, nil, "a/gold", nil},
		"All":           {"one without selector is for all", labels.Set{}, []candidate{config("a", "gold", "*")}, nil, "a/*", nil},
		"ByName":        {"the first by name of those that come at once", labels.Set{"tier": "gold"}, []candidate{config("b", "gold"), config("a", "*")}, nil, "a/*", []string{"b/gold"}},
		"Stays":         {"it stays where it is", gold("b", "gold"), []candidate{config("a", "*"), config("b", "gold")}, nil, "b/gold", []string{"a/*"}},
		"StaysByOther":  {"also by another definition", gold("b", "silver"), []candidate{config("a", "*"), config("b", "silver", "gold")}, nil, "b/gold", []string{"a/*"}},
		"Leaves":        {"it goes where its configuration has none", gold("b", "gold"), []candidate{config("a", "*"), config("b", "silver")}, nil, "a/*", nil},
		"HolderIsGone":  {"or is gone", gold("b", "gold"), []candidate{config("a", "*")}, nil, "a/*", nil},
		"Invalid":       {"an invalid one is passed over", labels.Set{"tier": "gold"}, []candidate{config("a", "gold?", "*")}, nil, "a/*", nil},
		"InvalidAlone":  {"or there is none", labels.Set{"tier": "gold"}, []candidate{config("a", "gold?")}, nil, "", nil},
		"Kept":          {"who has it keeps it", gold("a", "gold"), []candidate{config("a", "gold?", "*")}, nil, "a/gold as it is", nil},
		"KeptUnread":    {"also if nobody can tell whom it is for", gold("a", "!"), []candidate{config("a", "!", "*")}, nil, "a/! as it is", nil},
		"KeptNoLonger":  {"but not if it is not for it any more", gold("a", "silver"), []candidate{config("a", "silver?", "*")}, nil, "a/*", nil},
		"KeptFromOther": {"one of that name elsewhere is another", gold("b", "gold"), []candidate{config("a", "gold?", "*")}, nil, "a/*", nil},
		"Undecided":     {"nobody can tell, so nobody else has it", labels.Set{"tier": "gold"}, []candidate{config("a", "gold~", "*")}, nil, "a/gold as it is", nil},
		"UndecidedElse": {"an undecided one is of no concern to others", labels.Set{"tier": "gold"}, []candidate{config("a", "silver~", "*")}, nil, "a/*", nil},
		"QuotaSays":     {"the labels of the namespace are gone", labels.Set{"tier": "gold"}, []candidate{config("a", "*"), config("b", "gold?", "*")}, []corev1.ResourceQuota{onQuota}, "b/gold as it is", []string{"a/*"}},
		"QuotaToo":      {"or name something else", gold("b", "me"), []candidate{config("b", "gold?", "*")}, []corev1.ResourceQuota{onQuota}, "b/gold as it is", nil},
		"NamespaceWins": {"whose labels go before those of the quota", gold("a", "gold"), []candidate{config("a", "gold"), config("b", "gold")}, []corev1.ResourceQuota{onQuota}, "a/gold", []string{"b/gold"}},
		"InvalidOther":  {"an invalid one does not want it", gold("b", "gold"), []candidate{config("a", "gold?"), config("b", "gold")}, nil, "b/gold", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			chosen := choose(tt.namespace, holdersOf(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: tt.namespace}}, tt.quotas), tt.candidates)
			got := ""
			if m := chosen.match; m != nil {
				if got = m.config.Name + "/" + m.definition.Name; m.validity.state != valid {
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
