package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

// TestWhoWritesAPolicyIsWarned writes policies for a kind with two objects, and reads the API server's immediate
// warnings.
func TestWhoWritesAPolicyIsWarned(t *testing.T) {
	t.Parallel()
	const group = "previewed.example.com"
	w := newWorldFor(t, quotav1alpha1.ClaimingResource{APIGroup: group, Kind: "App"})
	definition := platform.Definition(group, "App", "apps")
	definition.Spec.Scope = apiextensionsv1.NamespaceScoped
	definition.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"payer": {Type: "string"}, "owner": {Type: "string"}, "replicas": {Type: "integer"},
		}},
	}}
	w.mustCreate(definition)
	for _, name := range []string{"api", "front"} {
		app := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"owner": w.name, "replicas": int64(2)}}}
		app.SetAPIVersion(group + "/v1")
		app.SetKind("App")
		app.SetNamespace(w.name)
		app.SetName(name)
		eventually(w, func() error { return client.IgnoreAlreadyExists(admin.Create(w.ctx, app)) })
	}
	objects := " (apps " + w.name + "/api, " + w.name + "/front)"
	const ofRecord = "annotations of its claims use user or requestInfo, so objects that nobody reviews do not count by this policy, " +
		"such as those that exist already; without these annotations all objects count"
	for name, tt := range map[string]struct {
		reason string
		change func(*quotav1alpha1.ClaimCreationPolicy)
		want   []string
	}{
		"applicable": {"there is nothing to say", func(p *quotav1alpha1.ClaimCreationPolicy) {
			consumerName(p, "{{.trigger.spec.owner}}")
		}, nil},
		"template": {"no object has a payer", func(p *quotav1alpha1.ClaimCreationPolicy) {
			consumerName(p, "{{.trigger.spec.payer}}")
		}, []string{"the policy cannot be applied to 2 of 2 App objects: .trigger.spec.payer is not set" + objects}},
		"condition": {"a condition needs it", func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: `trigger.spec.payer == "a"`}}
		}, []string{"the policy cannot be applied to 2 of 2 App objects: spec.trigger.conditions[0].expression: no such key: payer" + objects}},
		"one of them": {"those that can be applied to are left out", func(p *quotav1alpha1.ClaimCreationPolicy) {
			keepsClaims(p)
			p.Spec.Target.ResourceClaimTemplate.Metadata.Namespace = `{{if eq .trigger.metadata.name "api"}}no-such-namespace{{end}}`
		}, []string{ofRecord, "the policy cannot be applied to 1 of 2 App objects: its claim belongs in namespace no-such-namespace, which does not exist or is being deleted (apps " + w.name + "/api)"}},
		"user": {"who created them is not known", func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: `user.name == "a" && trigger.spec.payer == "a"`}}
		}, nil},
		"schema": {"the kind has no such field", func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: `has(trigger.spec.paier)`}}
		}, []string{"the policy does not fit the schema of App: spec.trigger.conditions[0].expression: 1:4: undefined field 'paier'"}},
		"version": {"the kind has no such version", func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Trigger.Resource.APIVersion = group + "/v2"
		}, []string{"the policy is not ready yet: kind App.previewed.example.com in version previewed.example.com/v2 is not served by this API server"}},
	} {
		t.Run(name, func(t *testing.T) {
			policy := w.newPolicy("previewed")
			policy.Spec.Trigger.Conditions = nil
			policy.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: group + "/v1", Kind: "App"}
			tt.change(policy)
			var got []string
			eventually(w, func() error { // discovery and the schema of a new kind may come a moment later
				var heard warnings
				config := rest.CopyConfig(started.Config)
				config.WarningHandler = &heard
				api, err := client.New(config, client.Options{Scheme: admin.Scheme()})
				if err != nil {
					return err
				}
				if err := api.Create(w.ctx, policy.DeepCopy(), client.DryRunAll); err != nil {
					return err
				}
				if got = slices.DeleteFunc(strings.Split(heard.String(), "\n"), func(s string) bool {
					isOther := strings.Contains(s, "chooses the paying consumer") || strings.Contains(s, "would count by this policy")
					return s == "" || isOther
				}); len(got) == 0 {
					got = nil
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					return &unexpected{diff}
				}
				return nil
			})
		})
	}
}

// unexpected is a difference between the expected and the found values.
type unexpected struct{ diff string }

func (u *unexpected) Error() string { return "(-want +got):\n" + u.diff }

func consumerName(p *quotav1alpha1.ClaimCreationPolicy, template string) {
	p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = template
}
