package validate_test

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// TestChangedBy checks the user on a grant and on a directly created claim, for any content of the request.
func TestChangedBy(t *testing.T) {
	grant := func(by string, amount int64) *quotav1alpha1.ResourceGrant {
		g := sampleGrant()
		g.Spec.Allowances[0].Buckets[0].Amount = amount
		if by != "" {
			g.Annotations = map[string]string{quotav1alpha1.AnnotationChangedBy: by, "team": "a"}
		}
		return g
	}
	directClaim := func(by, resize string) *claim {
		c := sampleClaim()
		c.Finalizers = []string{quotav1alpha1.FinalizerQuotaRelease}
		c.Labels = map[string]string{quotav1alpha1.LabelConsumerKind: c.Spec.ConsumerRef.Kind, quotav1alpha1.LabelConsumerName: c.Spec.ConsumerRef.Name}
		c.Annotations = map[string]string{quotav1alpha1.AnnotationResize: resize}
		if by != "" {
			c.Annotations[quotav1alpha1.AnnotationChangedBy] = by
		}
		return c
	}
	const (
		at    = `"path":"/metadata/annotations/quota.miloapis.com~1changed-by"`
		alice = `[{"op":"add",` + at + `,"value":"alice"}]`
	)
	for name, test := range map[string]struct {
		old, new any
		want     string
	}{
		"new grant":                             {new: grant("", 1), want: `[{"op":"add","path":"/metadata/annotations","value":{"quota.miloapis.com/changed-by":"alice"}}]`},
		"new grant that names somebody else":    {new: grant("bob", 1), want: alice},
		"new grant that names the user":         {new: grant("alice", 1)},
		"changed grant":                         {old: grant("bob", 1), new: grant("bob", 2), want: alice},
		"changed grant of an earlier version":   {old: grant("", 1), new: grant("bob", 2), want: alice},
		"grant whose spec stays":                {old: grant("bob", 1), new: grant("bob", 1)},
		"grant whose spec stays, another name":  {old: grant("bob", 1), new: grant("alice", 1), want: `[{"op":"add",` + at + `,"value":"bob"}]`},
		"grant whose spec stays, name left out": {old: grant("bob", 1), new: grant("", 1), want: `[{"op":"add","path":"/metadata/annotations","value":{"quota.miloapis.com/changed-by":"bob"}}]`},
		"grant without a name that gets one":    {old: grant("", 1), new: grant("bob", 1), want: `[{"op":"remove",` + at + `,"value":null}]`},
		"new claim":                             {new: directClaim("", ""), want: alice},
		"resized claim":                         {old: directClaim("bob", ""), new: directClaim("bob", "[]"), want: alice},
		"claim with another name":               {old: directClaim("bob", ""), new: directClaim("alice", ""), want: `[{"op":"add",` + at + `,"value":"bob"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			operation := admissionv1.Create
			if test.old != nil {
				operation = admissionv1.Update
			}
			webhooks := quiet().webhooks()
			handler, kind, resource := webhooks.Mutation(), "ResourceClaim", "resourceclaims"
			if _, isGrant := test.new.(*quotav1alpha1.ResourceGrant); isGrant {
				handler, kind, resource = webhooks.StampGrant(), "ResourceGrant", "resourcegrants"
			}
			got := send(t, handler, review(t, operation, kind, resource, "alice", test.old, test.new))
			if !got.Allowed || string(got.Patch) != test.want {
				t.Errorf("allowed = %t, patch %s, want %s", got.Allowed, got.Patch, test.want)
			}
		})
	}
}

// TestConsumerType gives a registration both names of its consumer kind.
func TestConsumerType(t *testing.T) {
	organization := quotav1alpha1.ConsumerTypeRef{APIGroup: "example.com", Kind: "Organization"}
	none := quotav1alpha1.ConsumerTypeRef{}
	value := `"value":{"apiGroup":"example.com","kind":"Organization"}}]`
	for name, test := range map[string]struct {
		reason         string
		name, formerly quotav1alpha1.ConsumerTypeRef
		want           string
	}{
		"new name":     {"readers of the earlier name find it", organization, none, `[{"op":"add","path":"/spec/consumerTypeRef",` + value},
		"earlier name": {"readers of the new name find it", none, organization, `[{"op":"add","path":"/spec/consumerType",` + value},
		"both":         {"nothing is missing", organization, organization, ""},
		"neither":      {"validation rejects it", none, none, ""},
		"half":         {"validation rejects it once", none, quotav1alpha1.ConsumerTypeRef{Kind: "Organization"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			registration := &quotav1alpha1.ResourceRegistration{}
			registration.Spec.ConsumerType, registration.Spec.ConsumerTypeRef = test.name, test.formerly
			request := review(t, admissionv1.Create, "ResourceRegistration", "resourceregistrations", "alice", nil, registration)

			got := send(t, quiet().webhooks().ConsumerType(), request)

			if !got.Allowed || string(got.Patch) != test.want {
				t.Errorf("%s: allowed = %t, patch %s, want %s", test.reason, got.Allowed, got.Patch, test.want)
			}
		})
	}
}
