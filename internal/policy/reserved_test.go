package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// A template cannot forge the labels and annotations of Bursar's claims.
func TestReservedKeysAreLeftOut(t *testing.T) {
	p := mustCompile(t, func(p *quotav1alpha1.ClaimCreationPolicy) {
		metadata := &p.Spec.Target.ResourceClaimTemplate.Metadata
		metadata.Labels = map[string]string{quotav1alpha1.LabelPolicy: "other", "quota.miloapis.com/tier": "a"}
		metadata.Annotations = map[string]string{quotav1alpha1.AnnotationResourceUID: "7", "note": "b"}
	})
	claim, err := p.Render(t.Context(), sample())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"quota.miloapis.com/tier": "a"}, claim.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"note": "b"}, claim.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

// Nor can the template of a grant.
func TestReservedKeysAreLeftOutOfGrants(t *testing.T) {
	policy := validGrantPolicy()
	metadata := &policy.Spec.Target.ResourceGrantTemplate.Metadata
	metadata.Name, metadata.Namespace = "base", "shop"
	metadata.Labels = map[string]string{quotav1alpha1.LabelPolicyUID: "1", quotav1alpha1.LabelSource: "mine"}
	metadata.Annotations = map[string]string{quotav1alpha1.AnnotationTemplateKeys: "1"}
	p, errs := CompileGrant(policy)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	grant, err := p.Render(sample().Object)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{quotav1alpha1.LabelSource: "mine"}, grant.Labels); diff != "" || len(grant.Annotations) > 0 {
		t.Errorf("annotations %v, labels (-want +got):\n%s", grant.Annotations, diff)
	}
}
