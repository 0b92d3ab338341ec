package policy

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func sampleClaim() *quotav1alpha1.ResourceClaim {
	return &quotav1alpha1.ResourceClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "quota.miloapis.com/v1alpha1", Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-deployment", Namespace: "shop",
			Labels:      map[string]string{"tier": "web", "quota.miloapis.com/environment": "prod"},
			Annotations: map[string]string{"requested-by": "jane", "trigger-kind": "Deployment", "note": "made by a policy"},
		},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Team", Name: "a", Namespace: "shop"},
			Requests: []quotav1alpha1.ResourceRequest{
				{ResourceType: "apps/deployments", Amount: 1},
				{ResourceType: "apps/zones", Amount: 2, Dimensions: map[string]string{"zone": "a", "name": "Web"}},
			},
			ResourceRef: quotav1alpha1.UnversionedObjectReference{APIGroup: "apps", Kind: "Deployment", Name: "Web", Namespace: "shop"},
		},
	}
}

func TestRender(t *testing.T) {
	type policy = quotav1alpha1.ClaimCreationPolicy
	type claim = quotav1alpha1.ResourceClaim
	of := func(p *policy) *quotav1alpha1.ResourceClaimTemplate { return &p.Spec.Target.ResourceClaimTemplate }
	for name, tc := range map[string]struct {
		reason string
		change func(*policy, map[string]any)
		want   func(*claim)
	}{
		"typical": {"every field", func(*policy, map[string]any) {}, func(*claim) {}},
		"name and generateName": {
			"name wins",
			func(p *policy, _ map[string]any) { of(p).Metadata.GenerateName = "x-" },
			func(*claim) {},
		},
		"generateName": {
			"is left for the caller to complete",
			func(p *policy, _ map[string]any) {
				of(p).Metadata.Name, of(p).Metadata.GenerateName = "", "{{.user.name}}-"
			},
			func(c *claim) { c.Name, c.GenerateName = "", "jane-" },
		},
		"name renders to nothing": {
			"as if there were none",
			func(p *policy, _ map[string]any) {
				of(p).Metadata.Name, of(p).Metadata.GenerateName = `{{default "" .trigger.nope}}`, "x-"
			},
			func(c *claim) { c.Name, c.GenerateName = "", "x-" },
		},
		"neither": {
			"the policy lends its name",
			func(p *policy, _ map[string]any) { of(p).Metadata.Name = "" },
			func(c *claim) { c.Name, c.GenerateName = "", "deployments-" },
		},
		"bare metadata": {
			"the caller finds the namespace",
			func(p *policy, _ map[string]any) {
				of(p).Metadata = quotav1alpha1.ObjectTemplateMetadata{Name: "x"}
			},
			func(c *claim) { c.ObjectMeta = metav1.ObjectMeta{Name: "x"} },
		},
		"resource reference": {
			"the template's is ignored",
			func(p *policy, _ map[string]any) {
				of(p).Spec.ResourceRef = &quotav1alpha1.UnversionedObjectReference{APIGroup: "x", Kind: "X", Name: "{{.nope}}"}
			},
			func(*claim) {},
		},
		"core and cluster-scoped": {
			"no group, no namespace",
			func(_ *policy, object map[string]any) {
				object["apiVersion"] = "v1"
				delete(object["metadata"].(map[string]any), "namespace")
			},
			func(c *claim) {
				c.Namespace = "bursar-system"
				c.Spec.ResourceRef.APIGroup, c.Spec.ResourceRef.Namespace = "", ""
			},
		},
		"consumer name": {
			"need not be a DNS name",
			func(p *policy, _ map[string]any) { of(p).Spec.ConsumerRef.Name = "system:{{.user.name}}@Example" },
			func(c *claim) { c.Spec.ConsumerRef.Name = "system:jane@Example" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			in, want := sample(), sampleClaim()
			compiled := mustCompile(t, func(p *policy) { tc.change(p, in.Object) })
			tc.want(want)
			got, err := compiled.Render(t.Context(), in)
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: claim (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// Without a request, annotations with templates on the request are omitted. Everything else stays.
func TestAnnotationsWithoutRequest(t *testing.T) {
	templates := map[string]string{
		"group": "{{index .user.groups 0}}", "extra": "{{index .user.extra.team 0}}", "name": "{{.user.name}}",
		"default": `{{default "nobody" .user.name}}`, "verb": "{{with .requestInfo}}{{.verb}}{{end}}",
		"object": "{{.trigger.metadata.name}}", "text": "as it is",
	}
	for name, tc := range map[string]struct {
		reason         string
		withoutRequest bool
		want           map[string]string
	}{
		"with a request": {"every annotation is rendered", false, map[string]string{
			"group": "dev", "extra": "a", "name": "jane", "default": "jane", "verb": "create", "object": "Web", "text": "as it is",
		}},
		"without one": {"there is nobody to speak of", true, map[string]string{"object": "Web", "text": "as it is"}},
	} {
		t.Run(name, func(t *testing.T) {
			compiled := mustCompile(t, func(p *quotav1alpha1.ClaimCreationPolicy) {
				p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate}
				p.Spec.Trigger.Conditions = nil
				p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = "a"
				p.Spec.Target.ResourceClaimTemplate.Metadata.Annotations = templates
			})
			in := sample()
			if tc.withoutRequest {
				in = Input{Object: in.Object, WithoutRequest: true}
			}
			claim, err := compiled.Render(t.Context(), in)
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, claim.Annotations); diff != "" {
				t.Errorf("%s: annotations (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRenderErrors(t *testing.T) {
	type policy = quotav1alpha1.ClaimCreationPolicy
	const template = "render spec.target.resourceClaimTemplate."
	of := func(p *policy) *quotav1alpha1.ResourceClaimTemplate { return &p.Spec.Target.ResourceClaimTemplate }
	for name, tc := range map[string]struct {
		reason string
		change func(*policy, map[string]any)
		want   string
	}{
		"missing field": {
			"names field, template, position and reason",
			func(p *policy, _ map[string]any) { of(p).Spec.ConsumerRef.Name = "{{.trigger.spec.organization}}" },
			template + `spec.consumerRef.name "{{.trigger.spec.organization}}": 1:3: .trigger.spec.organization is not set`,
		},
		"empty consumer": {
			"nobody would be charged",
			func(p *policy, _ map[string]any) { of(p).Spec.ConsumerRef.Name = `{{default "" .trigger.nope}}` },
			template + `spec.consumerRef.name "{{default \"\" .trigger.nope}}": the text is empty`,
		},
		"empty kind": {
			"nor is a kind missing",
			func(p *policy, _ map[string]any) { of(p).Spec.ConsumerRef.Kind = `{{trim " "}}` },
			template + `spec.consumerRef.kind "{{trim \" \"}}": the text is empty`,
		},
		"consumer name": {
			"would be another path",
			func(p *policy, _ map[string]any) { of(p).Spec.ConsumerRef.Name = "{{.trigger.apiVersion}}" },
			template + `spec.consumerRef.name "{{.trigger.apiVersion}}": the text "apps/v1" is not valid: may not contain '/'`,
		},
		"namespace": {
			"is not a label",
			func(p *policy, _ map[string]any) { of(p).Metadata.Namespace = "{{.trigger.metadata.name}}" },
			template + `metadata.namespace "{{.trigger.metadata.name}}": the text "Web" is not valid: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		},
		"name too long": {
			"253 bytes are what a name can have",
			func(p *policy, object map[string]any) {
				object["long"] = strings.Repeat("a", 254)
				of(p).Metadata.Name = "{{.trigger.long}}"
			},
			template + `metadata.name "{{.trigger.long}}": the text is longer than 253 bytes`,
		},
		"annotation too long": {
			"4 KiB are enough",
			func(p *policy, object map[string]any) {
				object["long"] = strings.Repeat("a", annotationBytesMax+1)
				of(p).Metadata.Annotations["long"] = "{{.trigger.long}}"
			},
			template + `metadata.annotations[long] "{{.trigger.long}}": the text is longer than 4096 bytes`,
		},
		"annotations too long": {
			"16 KiB for all",
			func(p *policy, object map[string]any) {
				object["long"] = strings.Repeat("a", annotationBytesMax)
				for _, key := range []string{"a", "b", "c", "d"} {
					of(p).Metadata.Annotations[key] = "{{.trigger.long}}"
				}
			},
			"render the annotations: with their keys they are longer than 16384 bytes",
		},
		"half a letter": {
			"JSON would replace it",
			func(p *policy, _ map[string]any) { of(p).Metadata.Annotations["a"] = `{{slice "é" 1}}` },
			template + `metadata.annotations[a] "{{slice \"é\" 1}}": the text "\xa9" is not valid: is not valid UTF-8`,
		},
		"dimension": {
			"rendered like any text",
			func(p *policy, _ map[string]any) {
				of(p).Spec.Requests[1].Dimensions["zone"] = "{{.trigger.spec.zone}}"
			},
			template + `spec.requests[1].dimensions[zone] "{{.trigger.spec.zone}}": 1:3: .trigger.spec.zone is not set`,
		},
		"no kind": {
			"there is nothing to refer to",
			func(p *policy, object map[string]any) {
				delete(object, "kind")
				of(p).Metadata.Annotations = nil
			},
			"refer to the object: it has no kind",
		},
		"no name": {
			"a name is generated before admission",
			func(p *policy, object map[string]any) {
				object["metadata"] = map[string]any{}
				of(p).Metadata.Name = ""
				of(p).Spec.Requests[1].Dimensions = nil
			},
			"refer to the object: it has no metadata.name",
		},
		"odd version": {
			"no group can be read",
			func(p *policy, object map[string]any) { object["apiVersion"] = "a/b/c" },
			"refer to the object: its apiVersion cannot be read: unexpected GroupVersion string: a/b/c",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := sample()
			compiled := mustCompile(t, func(p *policy) { tc.change(p, in.Object) })
			got, err := compiled.Render(t.Context(), in)
			if err == nil || err.Error() != tc.want {
				t.Errorf("%s: got %v, %v, want error %s", tc.reason, got, err, tc.want)
			}
		})
	}
}

// A claim belongs to its caller: changing one must not affect the next.
func TestRenderSharesNothing(t *testing.T) {
	p := mustCompile(t, nil)
	for range 2 {
		claim, err := p.Render(t.Context(), sample())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sampleClaim(), claim); diff != "" {
			t.Fatalf("claim (-want +got):\n%s", diff)
		}
		claim.Labels["tier"], claim.Annotations["note"] = "changed", "changed"
		claim.Spec.Requests[0].Amount, claim.Spec.Requests[1].Dimensions["zone"] = 9, "changed"
	}
}

func TestConcurrentUse(t *testing.T) {
	p := mustCompile(t, nil)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			in := sample()
			for range 50 {
				if matches, err := p.Matches(t.Context(), in); err != nil || !matches {
					t.Errorf("Matches = %t, %v, want true", matches, err)
				}
				claim, err := p.Render(t.Context(), in)
				if err != nil {
					t.Errorf("Render: %v", err)
				} else if diff := cmp.Diff(sampleClaim(), claim); diff != "" {
					t.Errorf("claim (-want +got):\n%s", diff)
				}
			}
		})
	}
	callers.Wait()
}
