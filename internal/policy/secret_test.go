package policy

import (
	"fmt"
	"strings"
	"testing"
)

// Policies see the metadata of a Secret, and none of its content, in any field.
func TestSecretsAreNotSeen(t *testing.T) {
	const kept = "aHVudGVyMg=="
	secret := func(apiVersion, kind string) map[string]any {
		return map[string]any{
			"apiVersion": apiVersion, "kind": kind, "type": "Opaque",
			"metadata": map[string]any{
				"name": "database", "labels": map[string]any{"team": "web"},
				"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"password":"` + kept + `"}}`, "note": "ours"},
			},
			"data": map[string]any{"password": kept}, "stringData": map[string]any{"password": kept},
			"immutable": true, // a table of Secrets has no such column
		}
	}
	object := secret("v1", "Secret")
	in := Input{Object: object}
	for _, name := range []string{varTrigger, varObject} {
		seen := fmt.Sprint(in.variables()[name])
		if strings.Contains(seen, kept) || strings.Contains(seen, "immutable") {
			t.Errorf("%s shows what the Secret keeps: %s", name, seen)
		}
		for _, want := range []string{"database", "team:web", "note:ours", "Opaque"} {
			if !strings.Contains(seen, want) {
				t.Errorf("%s lacks %s: %s", name, want, seen)
			}
		}
	}
	if !strings.Contains(fmt.Sprint(object), kept) {
		t.Error("the object itself was changed")
	}
	in = Input{Object: secret("example.com/v1", "Secret")}
	if !strings.Contains(fmt.Sprint(in.variables()[varTrigger]), kept) {
		t.Error("a kind of another group is not a Secret of Kubernetes")
	}
}
