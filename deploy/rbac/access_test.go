package rbac

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	page       = "../../docs/reference/access.md"
	tableStart = "<!-- made from deploy/rbac by: go test ./deploy/rbac -update -->\n"
	tableEnd   = "<!-- end -->\n"
)

// resources are the rows of the table.
var resources = []string{
	"resourceregistrations", "claimcreationpolicies", "grantcreationpolicies", "resourcegrants", "resourceclaims",
	"allowancebuckets", "effectiveresourcegrants", "consumerledgers", "resourcequotaallocations", "localresourcequotaallocations", "allocationledgers", "quotareviews", "quotahistories", "quotausages",
	"quotarequests", "quotadecisions", "quotarequestpolicies", "quotaalerts",
	"quotaserviceconfigs", "quotaincreases", "quotaconsumers", "events", "namespaces",
}

// special are the roles explained by the page in words: they permit something with single objects, or contain other
// roles.
var special = []string{"bursar-break-glass", "bursar-metrics-reader", "bursar-project-owner", "bursar-project-owner-quotas"}

var update = flag.Bool("update", false, "write the table of docs/reference/access.md again")

// The table in the documentation comes from the roles.
func TestDocumentedTable(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, started := strings.Cut(string(content), tableStart)
	got, after, ended := strings.Cut(rest, tableEnd)
	if !started || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	want := table(t)
	if *update {
		if err := os.WriteFile(page, []byte(before+tableStart+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is out of date, run go test ./deploy/rbac -update (-want +got):\n%s", page, diff)
	}
}

// table has a row for each resource, and a column for each role with a permission for any of them.
func table(t *testing.T) string {
	t.Helper()
	roles, err := ForUsers()
	if err != nil {
		t.Fatal(err)
	}
	roles = slices.DeleteFunc(roles, func(role *rbacv1.ClusterRole) bool { return slices.Contains(special, role.Name) })
	var b strings.Builder
	header, line := "| |", "| --- |"
	for _, role := range roles {
		header += " " + strings.ReplaceAll(strings.TrimPrefix(role.Name, "bursar-"), "-", " ") + " |"
		line += " --- |"
	}
	fmt.Fprintf(&b, "%s\n%s\n", header, line)
	for _, role := range roles {
		for _, rule := range role.Rules {
			if len(rule.ResourceNames) > 0 {
				continue // the page explains these in words
			}
			if i := slices.IndexFunc(rule.Resources, func(resource string) bool { return !slices.Contains(resources, resource) }); i >= 0 {
				t.Errorf("%s permits something on %s, which the table has no row for", role.Name, rule.Resources[i])
			}
		}
	}
	for _, resource := range resources {
		fmt.Fprintf(&b, "| %s |", resource)
		for _, role := range roles {
			fmt.Fprintf(&b, " %s |", cell(role.Rules, resource))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// cell returns the permissions of rules for all objects of a resource.
func cell(rules []rbacv1.PolicyRule, resource string) string {
	var verbs []string
	for _, rule := range rules {
		if slices.Contains(rule.Resources, resource) && len(rule.ResourceNames) == 0 {
			verbs = append(verbs, rule.Verbs...)
		}
	}
	said := strings.Join(verbs, ", ")
	for _, word := range []struct{ verbs, word string }{
		{"get, list, watch, create, update, patch, delete", "write"}, {"get, list, watch", "read"},
	} {
		said = strings.Replace(said, word.verbs, word.word, 1)
	}
	return said
}

// A journal has the names of users, so its readers have only the permissions needed to read.
func TestJournalReadersReadNothingElse(t *testing.T) {
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{quotav1alpha1.GroupName}, Resources: []string{"quotahistories"}, Verbs: []string{"create"}},
		{APIGroups: []string{quotav1alpha1.GroupName}, Resources: []string{"consumerledgers"}, Verbs: []string{"get", "list"}},
	}
	if diff := cmp.Diff(want, allRules(t)["bursar-journal-reader"]); diff != "" {
		t.Errorf("rules of auditors (-want +got):\n%s", diff)
	}
}

// Only users with the right to get ledgers see actors. These roles are for people trusted by the whole platform.
func TestWhoMayReadJournals(t *testing.T) {
	const nothing, figures, everything = "nothing", "figures", "everything"
	want := map[string]string{
		"bursar-platform-admin": everything, "bursar-quota-manager": everything, "bursar-journal-reader": everything,
		"bursar-quota-approver": figures, "bursar-tenant-admin": figures, "bursar-tenant-viewer": figures,
	}
	for role, rules := range allRules(t) {
		got := nothing
		switch may := func(resource, verb string) bool { return strings.Contains(cell(rules, resource), verb) }; {
		case !may("quotahistories", "create"):
		case may("consumerledgers", "read"), may("consumerledgers", "get"):
			got = everything
		case may("effectiveresourcegrants", "read"):
			got = figures
		}
		expected, listed := want[role]
		if !listed {
			expected = nothing
		}
		if got != expected {
			t.Errorf("%s reads %s of journals, want %s", role, got, expected)
		}
	}
}
