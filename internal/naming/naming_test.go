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
	}{
		"base":         {"the one that all others differ from", base, "projects"},
		"group":        {"the API group is part of a consumer's identity", change(func(c *quotav1alpha1.ConsumerRef) { c.APIGroup = "b.example.com" }), "projects"},
		"namespace":    {"so is the namespace", change(func(c *quotav1alpha1.ConsumerRef) { c.Namespace = "other" }), "projects"},
		"kind":         {"and the kind", change(func(c *quotav1alpha1.ConsumerRef) { c.Kind = "Project" }), "projects"},
		"type":         {"each resource type has a bucket", base, "users"},
		"shifted":      {"parts do not run into each other", change(func(c *quotav1alpha1.ConsumerRef) { c.Name = "acme-pro" }), "jects"},
		"punctuation":  {"what a name cannot hold still counts", base, "proj/ects"},
		"punctuation2": {"also if it looks the same when replaced", base, "proj.ects"},
		"long":         {"a long name is cut, its hash is not", change(func(c *quotav1alpha1.ConsumerRef) { c.Name = strings.Repeat("a", 253) }), "projects"},
		"longer":       {"two that are cut alike differ", change(func(c *quotav1alpha1.ConsumerRef) { c.Name = strings.Repeat("a", 252) }), "projects"},
		"empty":        {"nothing readable leaves the hash", quotav1alpha1.ConsumerRef{}, ""},
	}
	seen := map[string]string{}
	for name, tt := range tests {
		bucket := Bucket(tt.consumer, tt.resourceType)
		if other, taken := seen[bucket]; taken {
			t.Errorf("%s (%s) and %s are both named %s", name, tt.reason, other, bucket)
		}
		seen[bucket] = name
		if errs := validation.IsDNS1123Subdomain(bucket); len(errs) > 0 {
			t.Errorf("%s: %q is no name: %v", name, bucket, errs)
		}
		if bucket != Bucket(tt.consumer, tt.resourceType) {
			t.Errorf("%s: the name changes", name)
		}
	}
	if got := Bucket(base, "projects"); !strings.HasPrefix(got, "organization-acme-projects-") {
		t.Errorf("the name is %q, want it to begin with consumer kind, consumer name and resource type", got)
	}
}
