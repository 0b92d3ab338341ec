package policytest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/resource"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const policyOfMaps = `
apiVersion: quota.miloapis.com/v1alpha1
kind: ClaimCreationPolicy
metadata: {name: maps}
spec:
  trigger:
    resource: {apiVersion: v1, kind: ConfigMap}
    conditions:
    - expression: namespaceObject.metadata.labels.team != ""
  target:
    resourceClaimTemplate:
      metadata: {}
      spec:
        consumerRef: {apiGroup: example.com, kind: Team, name: "{{.namespaceObject.metadata.labels.team}}"}
        requests:
        - resourceType: example.com/maps
          amountExpression: "has(trigger.data) ? size(trigger.data) : 0"
`

const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: red}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: shop}
data: {one: "1", two: "2"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: shop}
data: {three: "3"}
`

const grantOfTwo = `
apiVersion: quota.miloapis.com/v1alpha1
kind: ResourceGrant
metadata: {name: base, namespace: red}
spec:
  consumerRef: {apiGroup: example.com, kind: Team, name: red}
  allowances:
  - resourceType: example.com/maps
    buckets: [{amount: 2}]
`

// run tests files.
func run(t *testing.T, contents ...string) (*Result, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(contents, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return Run(t.Context(), Options{Files: resource.FilenameOptions{Filenames: []string{file}}})
}

func TestWithoutGrants(t *testing.T) {
	result, err := run(t, policyOfMaps, objects)
	if err != nil {
		t.Fatal(err)
	}
	if !result.Passed() {
		t.Fatalf("got %+v and %+v, want that consumers without grants have enough", result.Rejected, result.Status)
	}
	if len(result.Status.Quotas) > 0 {
		t.Errorf("got the quotas %+v, and nothing is granted", result.Status.Quotas)
	}
	if o := result.Status.Objects[1]; len(o.Charges) != 1 || o.Charges[0].Amount != 2 || o.Charges[0].ConsumerRef.Name != "red" {
		t.Errorf("the first map is charged %+v, want 2 to red", o.Charges)
	}
	var printed strings.Builder
	if err := result.Print(&printed, ""); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"ConfigMap shop/a", "Team red", "example.com/maps", "Everything fits."} {
		if !strings.Contains(printed.String(), part) {
			t.Errorf("the result does not say %q:\n%s", part, &printed)
		}
	}
}

func TestWithGrants(t *testing.T) {
	result, err := run(t, policyOfMaps, objects, grantOfTwo)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []quotav1alpha1.ReviewResult{quotav1alpha1.ReviewResultFits, quotav1alpha1.ReviewResultFits, quotav1alpha1.ReviewResultDoesNotFit} {
		if o := result.Status.Objects[i]; o.Result != want {
			t.Errorf("%s: got %s (%s), want %s", o.Name, o.Result, o.Message, want)
		}
	}
	if result.Passed() {
		t.Error("the test passed")
	}
}

// TestFailures expects that a failure does not pass in any mode, and a hint at the missing namespace.
func TestFailures(t *testing.T) {
	_, maps, _ := strings.Cut(objects, "---")
	for _, mode := range []quotav1alpha1.EnforcementMode{"Enforce", "Warn", "Audit"} {
		result, err := run(t, strings.Replace(policyOfMaps, "spec:", "spec:\n  enforcementMode: "+string(mode), 1), maps)
		if err != nil {
			t.Fatal(err)
		}
		if result.Passed() {
			t.Errorf("%s: the test passed", mode)
		}
		var printed strings.Builder
		if err := result.Print(&printed, ""); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"no such key: team", "The files lack Namespace shop"} {
			if !strings.Contains(printed.String(), part) {
				t.Errorf("%s: the result does not say %q:\n%s", mode, part, &printed)
			}
		}
		if strings.Contains(printed.String(), "Everything fits") {
			t.Errorf("%s: the result says that everything fits:\n%s", mode, &printed)
		}
	}
}

// TestAuditBeyondLimit passes, and says what Enforce would deny.
func TestAuditBeyondLimit(t *testing.T) {
	result, err := run(t, strings.Replace(policyOfMaps, "spec:", "spec:\n  enforcementMode: Audit", 1), objects, grantOfTwo)
	if err != nil {
		t.Fatal(err)
	}
	if !result.Passed() {
		t.Errorf("got %+v, want that Audit lets it pass", result.Status)
	}
	var printed strings.Builder
	if err := result.Print(&printed, ""); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"the mode of ClaimCreationPolicy maps is Audit", "The mode Enforce would deny 1 of 3."} {
		if !strings.Contains(printed.String(), part) {
			t.Errorf("the result does not say %q:\n%s", part, &printed)
		}
	}
}

func TestRejected(t *testing.T) {
	for name, tt := range map[string]struct{ content, want string }{
		"an expression that does not compile": {strings.Replace(policyOfMaps, `!= ""`, "!=", 1), "spec.trigger.conditions[0].expression"},
		"a field that is unknown":             {strings.Replace(policyOfMaps, "trigger:", "triger:", 1), `unknown field "spec.triger"`},
		"a version that is unknown":           {strings.Replace(policyOfMaps, "v1alpha1", "v9", 1), "version quota.miloapis.com/v9 is not known"},
		"a field that is missing":             {strings.Replace(policyOfMaps, "metadata: {}", "", 1), "spec.target.resourceClaimTemplate.metadata: Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := run(t, tt.content, objects)
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Rejected) != 1 || !strings.Contains(result.Rejected[0].Reason, tt.want) || result.Passed() {
				t.Errorf("got %+v, want a policy to be rejected for %q", result.Rejected, tt.want)
			}
		})
	}
}

func TestWithoutPolicies(t *testing.T) {
	if _, err := run(t, objects); err == nil || !strings.Contains(err.Error(), "no ClaimCreationPolicy") {
		t.Errorf("got %v, want to be told that there is no policy", err)
	}
}
