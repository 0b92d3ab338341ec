package crds

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAll(t *testing.T) {
	definitions, err := All()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string][]string{}
	for _, definition := range definitions {
		kinds[definition.Spec.Group] = append(kinds[definition.Spec.Group], definition.Spec.Names.Kind)
	}
	want := map[string][]string{"openmcp.cloud": {"QuotaIncrease", "QuotaServiceConfig"}, "quota.miloapis.com": {
		"AllocationLedger", "AllowanceBucket", "ClaimCreationPolicy", "ConsumerLedger", "EffectiveResourceGrant", "GrantCreationPolicy",
		"LocalResourceQuotaAllocation", "QuotaAlert", "QuotaDecision", "QuotaHistory", "QuotaRequestPolicy", "QuotaRequest", "QuotaReview", "QuotaUsage", "ResourceClaim", "ResourceGrant", "ResourceQuotaAllocation", "ResourceRegistration",
	}}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("kinds by group (-want +got):\n%s", diff)
	}
}

// A standalone server stores objects past its API server, in the single storage version of each kind.
func TestStorageVersion(t *testing.T) {
	definitions, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			if version.Storage != (version.Name == "v1alpha1") {
				t.Errorf("version %s of %s is for storage: %t; see package directstore", version.Name, definition.Name, version.Storage)
			}
		}
	}
}

func TestAllReturnsCopies(t *testing.T) {
	first, err := All()
	if err != nil {
		t.Fatal(err)
	}
	first[0].Name = "changed"
	second, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if second[0].Name == "changed" {
		t.Error("a change to a returned definition shows in the next call's result")
	}
}

func TestDecodeIsStrict(t *testing.T) {
	const header = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
	tests := map[string]struct {
		reason  string
		content string
		want    string
	}{
		"Definition": {
			reason:  "a definition is returned",
			content: header + "metadata: {name: things.example.com}\n",
		},
		"UnknownField": {
			reason:  "a misspelt field would otherwise be lost in silence",
			content: header + "spec: {scoop: Cluster}\n",
			want:    "scoop",
		},
		"DuplicateField": {
			reason:  "of a field given twice one value would be lost",
			content: header + "spec: {scope: Cluster, scope: Namespaced}\n",
			want:    "scope",
		},
		"OtherKind": {
			reason:  "only definitions belong here",
			content: "apiVersion: v1\nkind: ConfigMap\n",
			want:    "ConfigMap",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := decode([]byte(tt.content))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("%s: %v", tt.reason, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%s: got error %v, want one that mentions %q", tt.reason, err, tt.want)
			}
		})
	}
}
