package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// policyOfDepartment charges the department of the user.
const policyOfDepartment = `
apiVersion: quota.miloapis.com/v1alpha1
kind: ClaimCreationPolicy
metadata: {name: maps}
spec:
  trigger:
    resource: {apiVersion: v1, kind: ConfigMap}
  target:
    resourceClaimTemplate:
      metadata: {}
      spec:
        consumerRef: {apiGroup: example.com, kind: Department, name: '{{user.extra["example.com/department"][0]}}'}
        requests:
        - {resourceType: example.com/maps, amount: 1}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: shop}
`

// TestPolicyTestAsUser evaluates a policy for a user with extra values, as an API server would pass them.
func TestPolicyTestAsUser(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policyOfDepartment), 0o600); err != nil {
		t.Fatal(err)
	}
	for extra, want := range map[string]string{
		"example.com/department=toys": "Department toys",
		"toys":                        `--as-user-extra: "toys" is not KEY=VALUE`,
	} {
		command := newPolicyTestCommand()
		var out bytes.Buffer
		command.SetOut(&out)
		command.SetErr(&out)
		command.SetArgs([]string{"-f", file, "--as", "jane", "--as-user-extra", extra})
		if err := command.ExecuteContext(t.Context()); err != nil {
			out.WriteString(err.Error())
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("with --as-user-extra %s the answer is %q, want %q", extra, &out, want)
		}
	}
}
