package policy

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-openapi/pkg/validation/spec"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// appSchema is the schema of a kind with all sorts of fields.
const appSchema = `{"type": "object", "properties": {
	"metadata": {"type": "object", "properties": {
		"name": {"type": "string"}, "namespace": {"type": "string"},
		"creationTimestamp": {"type": "string", "format": "date-time"},
		"labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
	"spec": {"type": "object", "properties": {
		"cpu": {"x-kubernetes-int-or-string": true},
		"replicas": {"type": "integer"},
		"owner": {"type": "string"},
		"ports": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
		"template": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}`

func TestMismatches(t *testing.T) {
	var schema spec.Schema
	if err := json.Unmarshal([]byte(appSchema), &schema); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		reason                      string
		condition, amount, consumer string
		want                        []string
	}{
		"all there": {
			reason:    "nothing is wrong with fields that exist, nor with what schemas leave open",
			condition: `trigger.metadata.namespace != "" && trigger.metadata.creationTimestamp > "2026" && has(trigger.metadata.labels.tier) && user.name != "x"`,
			amount:    `quantity(trigger.spec.cpu).asInteger() * trigger.spec.replicas + size(trigger.spec.template.anything)`,
			consumer:  `{{.trigger.spec.owner}}{{.object.metadata.labels.team}}{{.trigger.spec.template.a.b}}{{.trigger.spec.ports._0.name}}{{.namespaceObject.x}}`,
		},
		"the other name": {
			reason: "object is the same as trigger", condition: `object.spec.owner == "a" && object.metadata.name != ""`,
			amount: `object.spec.replicas`,
		},
		"condition": {
			reason: "the name is wrong", condition: `trigger.spec.payer == "a"`,
			want: []string{`spec.trigger.conditions[0].expression: 1:13: undefined field 'payer'`},
		},
		"condition of another type": {
			reason: "a number is no answer", condition: `trigger.spec.replicas`,
			want: []string{`spec.trigger.conditions[0].expression: 1:1: a condition must yield bool, not int`},
		},
		"amount": {
			reason: "the name is wrong", amount: `quantity(trigger.spec.cpuu)`,
			want: []string{`spec.target.resourceClaimTemplate.spec.requests[0].amountExpression: 1:22: undefined field 'cpuu'`},
		},
		"template": {
			reason: "the name is wrong, and there are others", consumer: `{{.trigger.spec.payer}}`,
			want: []string{`spec.target.resourceClaimTemplate.spec.consumerRef.name: 1:3: undefined field .trigger.spec.payer; ` +
				`.trigger.spec has cpu, owner, ports, replicas, template`},
		},
		"below a text": {
			reason: "texts have no fields", consumer: `x-{{.trigger.spec.owner.name}}`,
			want: []string{`spec.target.resourceClaimTemplate.spec.consumerRef.name: 1:5: undefined field .trigger.spec.owner.name: .trigger.spec.owner has no fields`},
		},
		"of a list": {
			reason: "items are counted", consumer: `{{.trigger.spec.ports.name}}`,
			want: []string{`spec.target.resourceClaimTemplate.spec.consumerRef.name: 1:3: undefined field .trigger.spec.ports.name: .trigger.spec.ports is a list`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustCompile(t, func(p *quotav1alpha1.ClaimCreationPolicy) {
				p.Spec.Trigger.Conditions = nil
				if tc.condition != "" {
					p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: tc.condition}}
				}
				template := &p.Spec.Target.ResourceClaimTemplate
				template.Metadata = quotav1alpha1.ObjectTemplateMetadata{}
				template.Spec.ConsumerRef = quotav1alpha1.ConsumerRef{Kind: "Team", Name: tc.consumer + "a"}
				template.Spec.Requests = []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "cpu", AmountExpression: tc.amount}}
				if tc.amount == "" {
					template.Spec.Requests[0].Amount = 1
				}
			})
			if diff := cmp.Diff(tc.want, p.Mismatches(&schema)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
