package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// validPolicy is a typical policy: two conditions and six texts with templates.
func validPolicy() *quotav1alpha1.ClaimCreationPolicy {
	return &quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "deployments"},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{
				Resource: quotav1alpha1.ClaimTriggerResource{APIVersion: "apps/v1", Kind: "Deployment"},
				Conditions: []quotav1alpha1.ConditionExpression{
					{Expression: `has(trigger.spec.replicas) && trigger.spec.replicas > 0`},
					{Expression: `!user.groups.exists(g, g == "system:masters")`},
				},
			},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{
					Name:      "{{.trigger.metadata.name | lower}}-deployment",
					Namespace: `{{default "bursar-system" .trigger.metadata.namespace}}`,
					Labels:    map[string]string{"tier": "web", "quota.miloapis.com/environment": "prod"},
					Annotations: map[string]string{
						"requested-by": "{{.user.name}}",
						"trigger-kind": "{{.trigger.kind}}",
						"note":         "made by a policy",
					},
				},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: quotav1alpha1.ConsumerRef{
						APIGroup: "example.com", Kind: "Team", Name: "{{index .user.extra.team 0}}", Namespace: "shop",
					},
					Requests: []quotav1alpha1.ResourceRequestTemplate{
						{ResourceType: "apps/deployments", Amount: 1},
						{ResourceType: "apps/zones", Amount: 2, Dimensions: map[string]string{"zone": "a", "name": "{{.trigger.metadata.name}}"}},
					},
				},
			}},
		},
	}
}

func TestCompileErrors(t *testing.T) {
	type policy = quotav1alpha1.ClaimCreationPolicy
	const template = "spec.target.resourceClaimTemplate."
	const subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
	const label = "must not contain dots"
	varies := func(name string) string {
		return "a policy with the operation UPDATE may not use " + name + " here: its demand must depend only on the object, and not on the user of a change"
	}
	counts := func(name string) string {
		return "a policy with spec.claims None may not use " + name + " here: its demand must depend only on the object as it is, and not on the request that created it"
	}
	of := func(p *policy) *quotav1alpha1.ResourceClaimTemplate { return &p.Spec.Target.ResourceClaimTemplate }
	for name, tc := range map[string]struct {
		reason string
		change func(*policy)
		want   []string
	}{
		"valid": {"nothing wrong", func(*policy) {}, nil},
		"everything at once": {
			"one look shows all faults",
			func(p *policy) {
				p.Spec.Trigger.Conditions[1].Expression = "foo"
				of(p).Metadata.Name = "{{.foo}}{{bar}}"
				of(p).Spec.ConsumerRef.Name = "{{"
				of(p).Spec.Requests[0].Amount = 0
			},
			[]string{
				`spec.trigger.conditions[1].expression: Invalid value: "foo": 1:1: undeclared reference to 'foo'; this expression sees ` + seesRequest,
				template + `metadata.name: Invalid value: "{{.foo}}{{bar}}": 1:3: there is no .foo; templates see .trigger, .object, .namespaceObject, .user and .requestInfo`,
				template + `metadata.name: Invalid value: "{{.foo}}{{bar}}": 1:11: there is no function bar`,
				template + `spec.consumerRef.name: Invalid value: "{{": line 1: unclosed action`,
				template + `spec.requests[0].amount: Invalid value: 0: must be greater than 0`,
			},
		},
		"too many conditions": {
			"ten are enough", withConditions(strings.Split(strings.Repeat("true ", 11), " ")[:11]...),
			[]string{`spec.trigger.conditions: Too many: 11: must have at most 10 items`},
		},
		"fixed names": {
			"are checked like rendered ones",
			func(p *policy) {
				of(p).Metadata.Name = "Not_A_Name"
				of(p).Metadata.GenerateName = "Prefix-"
				of(p).Metadata.Namespace = "a.b"
				of(p).Spec.ConsumerRef = quotav1alpha1.ConsumerRef{APIGroup: "-", Kind: "no kind", Name: "a/b", Namespace: "a.b"}
			},
			[]string{
				template + `metadata.name: Invalid value: "Not_A_Name": ` + subdomain,
				template + `metadata.generateName: Invalid value: "Prefix-": ` + subdomain,
				template + `metadata.namespace: Invalid value: "a.b": ` + label,
				template + `spec.consumerRef.apiGroup: Invalid value: "-": ` + subdomain,
				template + `spec.consumerRef.kind: Invalid value: "no kind": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`,
				template + `spec.consumerRef.name: Invalid value: "a/b": may not contain '/'`,
				template + `spec.consumerRef.namespace: Invalid value: "a.b": ` + label,
			},
		},
		"no consumer": {
			"a claim charges somebody",
			func(p *policy) { of(p).Spec.ConsumerRef = quotav1alpha1.ConsumerRef{APIGroup: "example.com"} },
			[]string{
				template + `spec.consumerRef.kind: Required value: nothing can be made without it`,
				template + `spec.consumerRef.name: Required value: nothing can be made without it`,
			},
		},
		"long source": {
			"shown neither whole nor in part",
			func(p *policy) { of(p).Metadata.Name = strings.Repeat("{{.user.name}}", 300) },
			[]string{template + `metadata.name: Too long: may not be more than 4096 bytes`},
		},
		"faulty source": {
			"shown in part",
			func(p *policy) { of(p).Metadata.Name = "{{.foo}}" + strings.Repeat("a", 300) },
			[]string{template + `metadata.name: Invalid value: "{{.foo}}` + strings.Repeat("a", 248) + `...": 1:3: there is no .foo; templates see .trigger, .object, .namespaceObject, .user and .requestInfo`},
		},
		"reserved keys": {
			"what Bursar sets is not taken from a template; the rest of its domain is free",
			func(p *policy) {
				of(p).Metadata.Labels = map[string]string{quotav1alpha1.LabelPolicy: "x", quotav1alpha1.LabelAutoCreated: "true", quotav1alpha1.LabelGVK: "x", "quota.miloapis.com/tier": "x"}
				of(p).Metadata.Annotations = map[string]string{
					quotav1alpha1.AnnotationCreatedBy: "x", quotav1alpha1.AnnotationCreatedAt: "x",
					quotav1alpha1.AnnotationResourceName: "x", quotav1alpha1.AnnotationResourceUID: "x", "quota.miloapis.com/tier": "x",
				}
			},
			nil,
		},
		"labels": {
			"are no templates",
			func(p *policy) { of(p).Metadata.Labels = map[string]string{"a": "{{.user.name}}"} },
			[]string{template + `metadata.labels: Invalid value: "{{.user.name}}": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
		},
		"annotation": {
			"the path has the key, which is no template",
			func(p *policy) { of(p).Metadata.Annotations = map[string]string{"a": "{{.foo}}", "{{b}}": "x"} },
			[]string{
				template + `metadata.annotations[a]: Invalid value: "{{.foo}}": 1:3: there is no .foo; templates see .trigger, .object, .namespaceObject, .user and .requestInfo`,
				template + `metadata.annotations: Invalid value: "{{b}}": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			},
		},
		"large metadata": {
			"together, not only each",
			func(p *policy) {
				of(p).Metadata.Labels, of(p).Metadata.Annotations = map[string]string{}, map[string]string{}
				for i := range 5 {
					of(p).Metadata.Annotations[fmt.Sprintf("a%d", i)] = strings.Repeat("x", annotationBytesMax)
				}
				for i := range 300 {
					of(p).Metadata.Labels[fmt.Sprintf("a%d", i)] = strings.Repeat("x", 60)
				}
			},
			[]string{
				template + `metadata.labels: Too long: may not be more than 16384 bytes`,
				template + `metadata.annotations: Too long: may not be more than 16384 bytes`,
			},
		},
		"no requests": {
			"nothing to claim",
			func(p *policy) { of(p).Spec.Requests = nil },
			[]string{template + `spec.requests: Required value: a claim requests at least one resource type`},
		},
		"too many requests": {
			"21",
			func(p *policy) { of(p).Spec.Requests = make([]quotav1alpha1.ResourceRequestTemplate, 21) },
			[]string{template + `spec.requests: Too many: 21: must have at most 20 items`},
		},
		"requests": {
			"types are fixed, there once, and amounts positive",
			func(p *policy) {
				of(p).Spec.Requests = []quotav1alpha1.ResourceRequestTemplate{
					{ResourceType: "a", Amount: 1}, {ResourceType: "a", Amount: -1}, {Amount: 1}, {ResourceType: "{{.trigger.kind}}", Amount: 1},
				}
			},
			[]string{
				template + `spec.requests[1].resourceType: Duplicate value: "a"`,
				template + `spec.requests[1].amount: Invalid value: -1: must be greater than 0`,
				template + `spec.requests[2].resourceType: Required value: a request names a resource type`,
				template + `spec.requests[3].resourceType: Invalid value: "{{.trigger.kind}}": may not be a template: the registration of a resource type is checked before there are objects`,
			},
		},
		"dimensions": {
			"bounded like those of a claim",
			func(p *policy) {
				of(p).Spec.Requests[0].Dimensions = map[string]string{"a": "{{.foo}}", "b": strings.Repeat("x", 254), strings.Repeat("k", 318): "x"}
			},
			[]string{
				template + `spec.requests[0].dimensions[a]: Invalid value: "{{.foo}}": 1:3: there is no .foo; templates see .trigger, .object, .namespaceObject, .user and .requestInfo`,
				template + `spec.requests[0].dimensions[b]: Invalid value: "` + strings.Repeat("x", 254) + `": may not be longer than 253 bytes`,
				template + `spec.requests[0].dimensions: Invalid value: "` + strings.Repeat("k", 318) + `": may not have a key of more than 317 bytes`,
			},
		},
		"request in a policy that follows updates": {
			"what depends on who changes the object is refused where it is read first, and annotations may vary",
			func(p *policy) {
				p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationUpdate}
				withConditions(`"user" != 'é' && [user].exists(u, u.name == user.name)`, "trigger.user == 'user' ||\n  requestInfo.verb == 'x'")(p)
				of(p).Metadata.Name = `user{{"user"}}{{.trigger.user}}{{if .trigger.a}}{{lower .user.name}}{{end}}{{.user.uid}}`
				of(p).Metadata.Namespace = "{{with .}}{{.user}}{{end}}"
				of(p).Spec.ConsumerRef.Name = "a\n{{(index $ \"user\").name}}"
			},
			[]string{
				`spec.trigger.conditions[0].expression: Invalid value: "\"user\" != 'é' && [user].exists(u, u.name == user.name)": 1:19: ` + varies("user"),
				`spec.trigger.conditions[1].expression: Invalid value: "trigger.user == 'user' ||\n  requestInfo.verb == 'x'": 2:3: ` + varies("requestInfo"),
				template + `metadata.name: Invalid value: "user{{\"user\"}}{{.trigger.user}}{{if .trigger.a}}{{lower .user.name}}{{end}}{{.user.uid}}": 1:57: ` + varies("user"),
				template + `metadata.namespace: Invalid value: "{{with .}}{{.user}}{{end}}": 1:8: ` + varies("user"),
				template + `metadata.namespace: Invalid value: "{{with .}}{{.user}}{{end}}": 1:8: ` + varies("requestInfo"),
				template + `spec.consumerRef.name: Invalid value: "a\n{{(index $ \"user\").name}}": 2:10: ` + varies("user"),
				template + `spec.consumerRef.name: Invalid value: "a\n{{(index $ \"user\").name}}": 2:10: ` + varies("requestInfo"),
			},
		},
		"request in a policy that counts objects": {
			"nobody knows the user of an object that exists",
			func(p *policy) {
				p.Spec.Claims = quotav1alpha1.ClaimsModeNone
				withConditions("user.name == 'a'", "object.status.phase == 'Ready'")(p)
				of(p).Spec.ConsumerRef.Name = "{{.trigger.metadata.namespace}}"
				of(p).Spec.Requests[1].Dimensions["name"] = "{{.requestInfo.verb}}"
			},
			[]string{
				`spec.trigger.conditions[0].expression: Invalid value: "user.name == 'a'": 1:1: ` + counts("user"),
				template + `spec.requests[1].dimensions[name]: Invalid value: "{{.requestInfo.verb}}": 1:3: ` + counts("requestInfo"),
			},
		},
		"request in a policy that counts objects and follows updates": {
			"the mode without claims is the stricter reason",
			func(p *policy) {
				p.Spec.Claims = quotav1alpha1.ClaimsModeNone
				p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationUpdate}
				withConditions("user.name == 'a'")(p)
				of(p).Spec.ConsumerRef.Name = "acme"
			},
			[]string{`spec.trigger.conditions[0].expression: Invalid value: "user.name == 'a'": 1:1: ` + counts("user")},
		},
		"parent pays for counted objects": {
			"the parent is that of the user, and an object has none",
			func(p *policy) {
				p.Spec.Claims = quotav1alpha1.ClaimsModeNone
				withConditions("true")(p)
				of(p).Spec.ConsumerRef = quotav1alpha1.ConsumerRef{}
			},
			[]string{template + `spec.consumerRef: Required value: a policy with spec.claims None names the consumer: its demand must depend only on the object as it is, and not on the request that created it`},
		},
		"counted objects": {
			"the object with its status and its namespace determine the demand",
			func(p *policy) {
				p.Spec.Claims = quotav1alpha1.ClaimsModeNone
				withConditions("!has(object.status.completionTime)", "namespaceObject.metadata.name != 'x'")(p)
				of(p).Spec.ConsumerRef.Name = "{{.namespaceObject.metadata.labels.team}}"
			},
			nil,
		},
		"claims": {
			"an explicit default permits what the default permits",
			func(p *policy) { p.Spec.Claims = quotav1alpha1.ClaimsModeObjects },
			nil,
		},
		"resource reference": {
			"not looked at, since the object takes its place",
			func(p *policy) { of(p).Spec.ResourceRef = &quotav1alpha1.UnversionedObjectReference{Name: "{{.foo"} },
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy := validPolicy()
			tc.change(policy)
			compiled, errs := Compile(policy)
			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: errors (-want +got):\n%s", tc.reason, diff)
			}
			if (compiled == nil) != (len(errs) > 0) {
				t.Errorf("got policy %v with %d errors, want either", compiled, len(errs))
			}
		})
	}
}
