package importer

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestChanges compares an earlier import with a later one. The server adds its defaults, and an administrator changes
// modes and annotations in between.
func TestChanges(t *testing.T) {
	const policy = `kind: ClaimCreationPolicy, metadata: {name: p`
	const target = `target: {resourceClaimTemplate: {metadata: {}, spec: {consumerRef: {kind: K, name: x}, requests: [{resourceType: s, amount: 1}]}}}`
	const trigger = `trigger: {resource: {apiVersion: v1, kind: Secret}`
	plain := policy + `}, spec: {` + trigger + `}, ` + target + `}`
	tests := map[string]struct {
		reason        string
		before, after string
		server        string // what happened on the server in between, as a merge patch
		want          string
	}{
		"nothing":           {"defaults are no difference", plain, plain, `{"spec": {"enabled": true, "disabled": false, "admission": "Escrow", "claims": "Objects", "trigger": {"operations": ["CREATE"]}}}`, `{}`},
		"a mode":            {"it is an administrator's", plain, plain, `{"spec": {"enforcementMode": "Enforce", "enabled": false, "admission": "Durable", "claims": "None"}}`, `{}`},
		"others' label":     {"it is not the import's", plain, plain, `{"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "status": {"observedGeneration": 3}}`, `{}`},
		"a switch":          {"false is no field", policy + `}, spec: {disabled: true, ` + trigger + `}, ` + target + `}`, plain, `{}`, `{"spec": {"disabled": null}}`},
		"a person's switch": {"an administrator has switched the policy off", plain, plain, `{"spec": {"disabled": true}}`, `{}`},
		"a condition":       {"the policy applies to more", policy + `}, spec: {` + trigger + `, conditions: [{expression: a}]}, ` + target + `}`, plain, `{}`, `{"spec": {"trigger": {"conditions": null}}}`},
		"constraints":       {"their number differs", policy + `}, spec: {` + trigger + `, constraints: [{expression: a}, {expression: b}]}, ` + target + `}`, policy + `}, spec: {` + trigger + `, constraints: [{expression: b}]}, ` + target + `}`, `{}`, `{"spec": {"trigger": {"constraints": [{"expression": "b"}]}}}`},
		"operations":        {"updates are not followed any more", policy + `}, spec: {` + trigger + `, operations: [CREATE, UPDATE]}, ` + target + `}`, plain, `{}`, `{"spec": {"trigger": {"operations": null}}}`},
		"a template":        {"it is a part of the spec", policy + `}, spec: {` + trigger + `}, target: {resourceClaimTemplate: {metadata: {annotations: {a: b}}, spec: {consumerRef: {kind: K, name: x}, requests: [{resourceType: s, amount: 1}]}}}}`, plain, `{}`, `{"spec": {"target": {"resourceClaimTemplate": {"metadata": {"annotations": null}}}}}`},
		"a person's edit":   {"the spec is the import's", plain, plain, `{"spec": {"trigger": {"constraints": [{"expression": "a"}]}}}`, `{"spec": {"trigger": {"constraints": null}}}`},
		"labels": {"the import wrote them", policy + `, labels: {team: a, tier: b}, annotations: {kubernetes.io/description: d}}, spec: {` + trigger + `}, ` + target + `}`,
			policy + `, labels: {team: b}}, spec: {` + trigger + `}, ` + target + `}`, `{}`,
			`{"metadata": {"annotations": {"kubernetes.io/description": null}, "labels": {"team": "b", "tier": null}}}`},
		"a registration": {"fewer kinds may claim", `kind: ResourceRegistration, metadata: {name: r}, spec: {resourceType: s, dimensions: [d], claimingResources: [{kind: Secret}]}`, `kind: ResourceRegistration, metadata: {name: r}, spec: {resourceType: s}`, `{}`,
			`{"spec": {"claimingResources": null, "dimensions": null}}`},
		"both names": {"Bursar fills in the other one", `kind: ResourceRegistration, metadata: {name: r}, spec: {resourceType: s, consumerTypeRef: {apiGroup: g, kind: K}}`,
			`kind: ResourceRegistration, metadata: {name: r}, spec: {resourceType: s, consumerTypeRef: {apiGroup: g, kind: K}}`,
			`{"spec": {"consumerType": {"apiGroup": "g", "kind": "K"}}}`, `{}`},
		"a grant": {"its end is gone", `kind: ResourceGrant, metadata: {name: g, namespace: a}, spec: {notAfter: "2030-01-01T00:00:00Z", consumerRef: {kind: K, name: x}, allowances: [{resourceType: s, buckets: [{amount: 2}]}]}`,
			`kind: ResourceGrant, metadata: {name: g, namespace: a}, spec: {consumerRef: {kind: K, name: x}, allowances: [{resourceType: s, buckets: [{amount: 2}]}]}`, `{}`,
			`{"spec": {"notAfter": null}}`},
		"a policy for grants": {"the trigger has less", `kind: GrantCreationPolicy, metadata: {name: g}, spec: {disabled: true, trigger: {resource: {apiVersion: v1, kind: Namespace}, constraints: [{expression: a}]}}`,
			`kind: GrantCreationPolicy, metadata: {name: g}, spec: {trigger: {resource: {apiVersion: v1, kind: Namespace}}}`, `{"spec": {"enabled": true}}`,
			`{"spec": {"disabled": null, "trigger": {"constraints": null}}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			plan := func(content string, before *earlier) *Plan {
				_, plan := miloPlan(t, false, `{apiVersion: quota.miloapis.com/v1alpha1, `+content+`}`)
				plan.setModes(before)
				return plan
			}
			before := written(t, "milo", plan(tt.before, newEarlier()), func(object *unstructured.Unstructured) {
				own(t, object)
				merge(t, object, tt.server)
			})
			all, err := plan(tt.after, before).placed("milo")
			if err != nil {
				t.Fatal(err)
			}
			changed, err := (&importer{target: &cluster{}}).changes(all, before)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]any{}
			for _, each := range changed {
				got = each.change
			}
			if diff := cmp.Diff(parsed[map[string]any](t, tt.want)[0], got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// own records the labels, annotations and fields of an object as written by an import, as a server does.
func own(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	fields := map[string]any{}
	for field, values := range map[string]map[string]string{"f:labels": object.GetLabels(), "f:annotations": object.GetAnnotations()} {
		keys := map[string]any{".": map[string]any{}}
		for key := range values {
			keys["f:"+key] = map[string]any{}
		}
		fields[field] = keys
	}
	spec := map[string]any{}
	written, _, _ := unstructured.NestedMap(object.Object, "spec") //nolint:errcheck // a plan has a map there
	for field := range written {
		spec["f:"+field] = map[string]any{}
	}
	raw, err := json.Marshal(map[string]any{"f:metadata": fields, "f:spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: fieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw))}})
}

// merge applies a merge patch to an object.
func merge(t *testing.T, object *unstructured.Unstructured, patch string) {
	t.Helper()
	content, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if content, err = jsonpatch.MergePatch(content, []byte(patch)); err != nil {
		t.Fatal(err)
	}
	if err := object.UnmarshalJSON(content); err != nil {
		t.Fatal(err)
	}
}
