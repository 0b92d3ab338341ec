package naming

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestBucketNamesAreTheirIdentity(t *testing.T) {
	base := quotav1alpha1.ConsumerRef{APIGroup: "a.example.com", Kind: "Organization", Namespace: "space", Name: "acme"}
	change := func(f func(*quotav1alpha1.ConsumerRef)) quotav1alpha1.ConsumerRef {
		changed := base
		f(&changed)
		return changed
	}
	tests := map[string]struct {
		reason       string
		consumer     quotav1alpha1.ConsumerRef
		resourceType string
		dimensions   map[string]string
	}{
		"base":         {"the one that all others differ from", base, "projects", nil},
		"group":        {"the API group is part of a consumer's identity", change(func(c *quotav1alpha1.ConsumerRef) { c.APIGroup = "b.example.com" }), "projects", nil},
		"namespace":    {"so is the namespace", change(func(c *quotav1alpha1.ConsumerRef) { c.Namespace = "other" }), "projects", nil},
		"kind":         {"and the kind", change(func(c *quotav1alpha1.ConsumerRef) { c.Kind = "Project" }), "projects", nil},
		"type":         {"each resource type has a bucket", base, "users", nil},
		"shifted":      {"parts do not run into each other", change(func(c *quotav1alpha1.ConsumerRef) { c.Name = "acme-pro" }), "jects", nil},
		"punctuation":  {"what a name cannot hold still counts", base, "proj/ects", nil},
		"punctuation2": {"also if it looks the same when replaced", base, "proj.ects", nil},
		"long":         {"a long name is cut, its hash is not", change(func(c *quotav1alpha1.ConsumerRef) { c.Name = strings.Repeat("a", 253) }), "projects", nil},
		"longer":       {"two that are cut alike differ", change(func(c *quotav1alpha1.ConsumerRef) { c.Name = strings.Repeat("a", 252) }), "projects", nil},
		"empty":        {"nothing readable leaves the hash", quotav1alpha1.ConsumerRef{}, "", nil},
		"dimensions":   {"and each dimension set of it another", base, "projects", map[string]string{"location": "DFW"}},
		"dimension":    {"the key counts as well as the value", base, "projects", map[string]string{"zone": "DFW"}},
		"more":         {"and every pair", base, "projects", map[string]string{"location": "DFW", "tier": ""}},
		"swapped":      {"a key is no value", base, "projects", map[string]string{"DFW": "location"}},
		"merged":       {"pairs do not run into each other", base, "projects", map[string]string{"location": "DFW-tier"}},
	}
	seen := map[string]string{}
	for name, tt := range tests {
		bucket := Bucket(tt.consumer, tt.resourceType, tt.dimensions)
		if other, taken := seen[bucket]; taken {
			t.Errorf("%s (%s) and %s are both named %s", name, tt.reason, other, bucket)
		}
		seen[bucket] = name
		if errs := validation.IsDNS1123Subdomain(bucket); len(errs) > 0 {
			t.Errorf("%s: %q is no name: %v", name, bucket, errs)
		}
		if bucket != Bucket(tt.consumer, tt.resourceType, tt.dimensions) {
			t.Errorf("%s: the name changes", name)
		}
	}
	// The name of a bucket for a whole resource type is in the hands of people and of older versions.
	if got, want := Bucket(base, "projects", nil), "organization-acme-projects-f6dwk7fiykm3sn4a"; got != want {
		t.Errorf("the name is %q, want %q as ever", got, want)
	}
	if got, want := EffectiveGrant(base, "projects"), Bucket(base, "projects", map[string]string{}); got != want {
		t.Errorf("the effective grant is named %q, want %q, as its bucket", got, want)
	}
	located := Bucket(base, "projects", map[string]string{"tier": "Gold", "location": "DFW"})
	if !strings.HasPrefix(located, "organization-acme-projects-dfw-gold-") {
		t.Errorf("the name is %q, want it to tell the dimensions, in the order of their keys", located)
	}
	if got := Bucket(base, "projects", nil); !strings.HasPrefix(got, "organization-acme-projects-") {
		t.Errorf("the name is %q, want it to begin with consumer kind, consumer name and resource type", got)
	}
}
