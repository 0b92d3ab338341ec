package rbac

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/deploy/crds"
)

// allRules returns the rules of every role in this folder, by the name of the role. The Role of the system namespace
// has its namespace in the name.
func allRules(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	users, err := ForUsers()
	if err != nil {
		t.Fatal(err)
	}
	operator := operatorRoles(t)
	rules := map[string][]rbacv1.PolicyRule{operator.System.Namespace + "/" + operator.System.Name: operator.System.Rules}
	for _, role := range append(users, operator.Role, operator.Kinds, operator.Install) {
		rules[role.Name] = role.Rules
	}
	return rules
}

func operatorRoles(t *testing.T) Operator {
	t.Helper()
	operator, err := ForOperator("quota-system")
	if err != nil {
		t.Fatal(err)
	}
	return operator
}

func TestEveryFileIsOneRole(t *testing.T) {
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	rules := allRules(t)
	if len(rules) != len(entries) {
		t.Errorf("there are %d files and %d roles, each under a name of its own", len(entries), len(rules))
	}
	for name := range rules {
		if !strings.HasPrefix(strings.TrimPrefix(name, "quota-system/"), "bursar-") {
			t.Errorf("role %s is not recognizable as one of Bursar's", name)
		}
	}
}

func TestNoWildcards(t *testing.T) {
	for name, rules := range allRules(t) {
		for i, rule := range rules {
			for _, value := range slices.Concat(rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames, rule.NonResourceURLs) {
				if strings.Contains(value, "*") {
					t.Errorf("rule %d of %s says %q: whoever has it may do what nobody has thought of", i, name, value)
				}
			}
		}
	}
}

// Some verbs let users give themselves every other permission. No role has them, except for the one for a single group.
func TestNobodyCanEscalate(t *testing.T) {
	for name, rules := range allRules(t) {
		for _, rule := range rules {
			for _, verb := range []string{"escalate", "bind", "impersonate"} {
				if slices.Contains(rule.Verbs, verb) && name != "bursar-break-glass" {
					t.Errorf("%s has the verb %s", name, verb)
				}
			}
		}
	}
	want := []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"groups"}, ResourceNames: []string{quotav1alpha1.BreakGlassGroup}, Verbs: []string{"impersonate"},
	}}
	if diff := cmp.Diff(want, allRules(t)["bursar-break-glass"]); diff != "" {
		t.Errorf("break-glass is for one group (-want +got):\n%s", diff)
	}
}

// Bursar may replace its own definitions and no others.
func TestInstallNamesEveryDefinition(t *testing.T) {
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, definition := range definitions {
		want = append(want, definition.Name)
	}
	if diff := cmp.Diff(want, operatorRoles(t).Install.Rules[0].ResourceNames); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
}

func TestKindsCollectsLabelled(t *testing.T) {
	rule := operatorRoles(t).Kinds.AggregationRule
	if rule == nil || len(rule.ClusterRoleSelectors) != 1 || rule.ClusterRoleSelectors[0].MatchLabels[quotav1alpha1.LabelAggregateToOperator] != "true" {
		t.Errorf("bursar-operator-kinds collects %+v, want the ClusterRoles with the label %s", rule, quotav1alpha1.LabelAggregateToOperator)
	}
}

func TestSystemNamespace(t *testing.T) {
	if got := operatorRoles(t).System.Namespace; got != "quota-system" {
		t.Errorf("the role of the system namespace is for namespace %s", got)
	}
}

func TestDecodeIsStrict(t *testing.T) {
	const header = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n"
	tests := map[string]struct {
		reason, content, want string
	}{
		"Role":          {"a role is returned", header + "metadata: {name: a}\n", ""},
		"UnknownField":  {"a misspelt field would otherwise be lost in silence", header + "rule: []\n", "rule"},
		"AnotherKind":   {"a binding is no role", strings.Replace(header, "ClusterRole", "ClusterRoleBinding", 1), "ClusterRoleBinding"},
		"NotYAMLAtAll":  {"a file may be cut off", "{", "yaml"},
		"AnotherSchema": {"another version may mean something else", strings.Replace(header, "v1", "v1beta1", 1), "v1beta1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := decode[rbacv1.ClusterRole]("ClusterRole", []byte(tt.content))
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got error %v, want %q", tt.reason, err, tt.want)
			}
		})
	}
}
