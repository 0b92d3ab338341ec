package importer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// mapper knows a few kinds.
func mapper() apimeta.RESTMapper {
	m := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}, {Group: "coordination.k8s.io", Version: "v1"}, {Group: "image.openshift.io", Version: "v1"}})
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "Pod"}, {Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, {Group: "image.openshift.io", Version: "v1", Kind: "ImageStream"},
	} {
		m.Add(kind, apimeta.RESTScopeNamespace)
	}
	m.Add(services, apimeta.RESTScopeNamespace)
	m.Add(volumes, apimeta.RESTScopeNamespace)
	m.Add(namespaceKind, apimeta.RESTScopeRoot)
	return m
}

func parsed[T any](t *testing.T, documents ...string) []T {
	t.Helper()
	all := make([]T, len(documents))
	for i, document := range documents {
		if err := yaml.Unmarshal([]byte(document), &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// summary is a plan in lines: the limits of each consumer, the policies, and the notes.
func summary(from string, r *reading) []string {
	plan := build(from, mapper(), r.limits, newEarlier(), nil)
	var lines []string
	for _, g := range plan.Grants {
		for _, a := range g.Spec.Allowances {
			lines = append(lines, fmt.Sprintf("grant %s/%s %s=%d", g.Spec.ConsumerRef.Namespace, g.Spec.ConsumerRef.Name, a.ResourceType, a.Buckets[0].Amount))
		}
	}
	for _, p := range plan.Policies {
		line := fmt.Sprintf("policy %s %s", p.Spec.EnforcementMode, p.Spec.Trigger.Resource.Kind)
		for _, c := range p.Spec.Trigger.Conditions {
			line += " if " + c.Expression
		}
		lines = append(lines, line)
	}
	for _, n := range append(slices.Clone(r.notes), plan.Notes...) {
		lines = append(lines, "note "+n.What)
	}
	return lines
}

func TestSources(t *testing.T) {
	const annotation = `namespaceObject.metadata.?annotations[?"quota.miloapis.com/imported-limits-`
	limited := func(from string) string { return annotation + from + `"].hasValue()` }
	listed := func(from, name string) string {
		return fmt.Sprintf("%q in ", name) + annotation + from + `"].orValue("").split(",")`
	}
	ofOil := func(root string) string {
		label := root + `.metadata.?labels[?"capsule.clastix.io/tenant"]`
		return label + `.hasValue() && ` + label + `.value() == "oil"`
	}
	tests := map[string]struct {
		reason string
		from   string
		read   func() *reading
		want   []string
	}{
		"ResourceQuota": {"a namespace, its scopes and what has no equal", "resourcequota", func() *reading {
			return fromResourceQuotas(parsed[corev1.ResourceQuota](t,
				`{metadata: {name: a, namespace: shop}, spec: {hard: {requests.cpu: 1500m, count/deployments: 1, count/deployments.apps: 3, count/leases.coordination.k8s.io: 1, count/unknown.example.com: 1}}}`,
				`{metadata: {name: b, namespace: shop}, spec: {hard: {pods: 4, count/secrets: 5}, scopes: [Terminating]}}`,
				`{metadata: {name: c, namespace: shop, labels: {hnc.x-k8s.io/hrq: "true"}}, spec: {hard: {pods: 4}}}`,
				`{metadata: {name: d, namespace: shop}, spec: {hard: {count/deployments.apps: 2}}}`,
				`{metadata: {name: e, namespace: kube-system}, spec: {hard: {pods: 2}}}`,
				`{metadata: {name: capsule-oil-0, namespace: oil-a, labels: {capsule.clastix.io/resource-quota: "0", capsule.clastix.io/tenant: oil}}, spec: {hard: {count/secrets: 1}}}`,
				`{metadata: {name: capsule-pool-oil, namespace: oil-a, labels: {projectcapsule.dev/pool: oil, projectcapsule.dev/tenant: oil}}, spec: {hard: {count/secrets: 1}}}`,
				`{metadata: {name: capsule-global-quota-1, namespace: oil-a, labels: {projectcapsule.dev/global-resource-quota: oil}}, spec: {hard: {count/secrets: 1}}}`,
				`{metadata: {name: people, namespace: oil-a, labels: {projectcapsule.dev/tenant: oil, capsule.clastix.io/tenant: oil}}, spec: {hard: {count/secrets: 8}}}`))
		}, []string{
			"grant oil-a/oil-a resourcequota/count/secrets=8",
			"grant shop/shop resourcequota/count/deployments.apps=2", "grant shop/shop resourcequota/requests.cpu=1500",
			"grant shop/shop resourcequota/terminating/pods=4",
			"policy Audit Deployment if " + listed("resourcequota", "count/deployments.apps"),
			"policy Audit Pod if " + limited("resourcequota"),
			"policy Audit Pod if " + limited("resourcequota") + " if trigger.spec.?activeDeadlineSeconds.hasValue()",
			"policy Audit Secret if " + listed("resourcequota", "count/secrets"),
			"note ResourceQuota shop/c", "note ResourceQuota oil-a/capsule-oil-0", "note ResourceQuota oil-a/capsule-pool-oil", "note ResourceQuota oil-a/capsule-global-quota-1",
			"note limits of CPU and memory",
			"note ResourceQuota shop/a: count/deployments", "note ResourceQuota shop/a: count/leases.coordination.k8s.io", "note ResourceQuota shop/a: count/unknown.example.com",
			"note ResourceQuota shop/b: count/secrets", "note ResourceQuota shop/d: count/deployments.apps", "note ResourceQuota kube-system/e",
		}},
		"ClusterResourceQuota": {"the namespaces that it selects by labels and annotations", "clusterresourcequota", func() *reading {
			return fromClusterResourceQuotas(parsed[clusterResourceQuota](t,
				`{metadata: {name: jane}, spec: {selector: {annotations: {openshift.io/requester: jane}, labels: {matchExpressions: [{key: tier, operator: NotIn, values: [test]}]}}, quota: {hard: {count/secrets: 9}}}}`,
				`{metadata: {name: images}, spec: {selector: {annotations: null, labels: {matchLabels: {tier: prod}}}, quota: {hard: {openshift.io/imagestreams: 4}}}}`,
				`{metadata: {name: none}, spec: {selector: {}, quota: {hard: {count/secrets: 9}}}}`,
				`{metadata: {name: all}, spec: {selector: {labels: {}}, quota: {hard: {count/secrets: 9}}}}`), "bursar-system")
		}, []string{
			"grant bursar-system/clusterresourcequota-images clusterresourcequota/openshift.io/imagestreams=4",
			"grant bursar-system/clusterresourcequota-jane clusterresourcequota/count/secrets=9",
			`policy Audit ImageStream if namespaceObject.metadata.?labels[?"tier"].hasValue() && namespaceObject.metadata.?labels[?"tier"].value() == "prod"`,
			`policy Audit Secret if namespaceObject.metadata.?annotations[?"openshift.io/requester"].hasValue() && namespaceObject.metadata.?annotations[?"openshift.io/requester"].value() == "jane"` +
				` if !(namespaceObject.metadata.?labels[?"tier"].hasValue() && namespaceObject.metadata.?labels[?"tier"].value() in ["test"])`,
			"note ClusterResourceQuota none", "note ClusterResourceQuota all",
		}},
		"HierarchicalResourceQuota": {"a tree of namespaces, the stricter one of two", "hierarchicalresourcequota", func() *reading {
			return fromHierarchicalResourceQuotas(parsed[hierarchicalResourceQuota](t,
				`{metadata: {name: a, namespace: team}, spec: {hard: {count/secrets: 9}}}`,
				`{metadata: {name: b, namespace: team}, spec: {hard: {count/secrets: 5}}}`))
		}, []string{
			"grant team/tree-team hierarchicalresourcequota/count/secrets=5",
			`policy Audit Secret if namespaceObject.metadata.?labels[?"team.tree.hnc.x-k8s.io/depth"].hasValue()`,
			"note labels tree.hnc.x-k8s.io/depth", "note HierarchicalResourceQuota team/b: count/secrets",
		}},
		"Capsule": {"a tenant as a whole, its namespaces, each of them, and namespaces with labels", "capsule", func() *reading {
			return fromCapsule(parsed[tenant](t,
				`{metadata: {name: oil, annotations: {quota.resources.capsule.clastix.io/deployments.apps_v1: "7", quota.resources.capsule.clastix.io/foos: x, quota.resources.capsule.clastix.io/secrets_v1: "3", used.resources.capsule.clastix.io/deployments.apps_v1: "2"}}, spec: {namespaceOptions: {quota: 3}, resourceQuotas: {scope: Tenant, items: [{hard: {count/secrets: 9}}]}, limitRanges: {items: [{limits: []}]}}}`,
				`{metadata: {name: gas}, spec: {resourceQuotas: {scope: Namespace, items: [{hard: {count/secrets: 4}}]}}}`,
				`{metadata: {name: sun}, spec: {resourceQuotas: {scope: Namespace}, limitRanges: {}}}`),
				parsed[globalQuota](t,
					`{metadata: {name: oil-shared}, spec: {namespaceSelectors: [{matchLabels: {capsule.clastix.io/tenant: oil}, matchExpressions: [{key: env, operator: Exists}]}], quota: {hard: {count/secrets: 6}}}}`,
					`{metadata: {name: two}, spec: {namespaceSelectors: [{matchLabels: {env: a}}, {matchLabels: {env: b}}], quota: {hard: {count/secrets: 6}}}}`,
					`{metadata: {name: everything}, spec: {namespaceSelectors: [{matchLabels: {}}], quota: {hard: {count/secrets: 6}}}}`,
					`{metadata: {name: nothing}, spec: {quota: {hard: {count/secrets: 6}}}}`),
				parsed[corev1.Namespace](t, `{metadata: {name: gas-a, labels: {capsule.clastix.io/tenant: gas}}}`, `{metadata: {name: other}}`), "bursar-system")
		}, []string{
			"grant bursar-system/globalresourcequota-oil-shared capsule/count/secrets=6",
			"grant bursar-system/tenant-oil capsule/count/deployments.apps=7", "grant bursar-system/tenant-oil capsule/count/secrets=9", "grant bursar-system/tenant-oil capsule/namespaces=3",
			"grant gas-a/capsule-gas-a capsule/count/secrets=4",
			"policy Audit Secret if " + ofOil("namespaceObject") + ` if namespaceObject.metadata.?labels[?"env"].hasValue()`,
			"policy Audit Deployment if " + ofOil("namespaceObject"), "policy Audit Namespace if " + ofOil("trigger"), "policy Audit Secret if " + ofOil("namespaceObject"),
			"policy Audit Secret if " + listed("capsule", "count/secrets"),
			"note Tenant oil: quota.resources.capsule.clastix.io/foos", "note Tenant oil: quota.resources.capsule.clastix.io/secrets_v1", "note Tenant oil: limitRanges",
			"note Tenant gas: resourceQuotas", "note GlobalResourceQuota two", "note GlobalResourceQuota everything", "note GlobalResourceQuota nothing",
		}},
		"OpenMCP": {"the ResourceQuotas of the quota operator, with the increases in them", "openmcp", func() *reading {
			return fromOpenMCP(parsed[corev1.ResourceQuota](t,
				`{metadata: {name: base, namespace: shop, labels: {quota.openmcp.cloud/managed-by: operator}}, spec: {hard: {count/secrets: 15}}}`,
				`{metadata: {name: own, namespace: shop}, spec: {hard: {count/secrets: 99}}}`),
				parsed[metav1.PartialObjectMetadata](t, `{metadata: {name: more, namespace: shop}}`), parsed[metav1.PartialObjectMetadata](t, `{metadata: {name: projects}}`))
		}, []string{"grant shop/openmcp-shop openmcp/count/secrets=15", "policy Audit Secret if " + listed("openmcp", "count/secrets"), "note QuotaIncrease shop/more", "note QuotaServiceConfig projects"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := summary(tt.from, tt.read())
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// TestMilo checks that Milo's policies only audit at first, and notes name fields unknown to Bursar.
func TestMilo(t *testing.T) {
	_, plan := miloPlan(t, false,
		`{apiVersion: quota.miloapis.com/v1alpha1, kind: ClaimCreationPolicy, metadata: {name: p, uid: x, finalizers: [a/b]}, spec: {novelty: {set: true}, trigger: {resource: {apiVersion: v1, kind: Secret}}, target: {resourceClaimTemplate: {metadata: {}, spec: {consumerRef: {kind: K, name: x}, requests: [{resourceType: s, amount: 1}]}}}}, status: {}}`,
		`{apiVersion: quota.miloapis.com/v1alpha1, kind: ResourceGrant, metadata: {name: made, namespace: a, labels: {quota.miloapis.com/auto-created: "true"}}, spec: {}}`,
		`{apiVersion: quota.miloapis.com/v1alpha1, kind: ResourceGrant, metadata: {name: g, namespace: a}, spec: {consumerRef: {kind: K, name: x}, allowances: [{resourceType: s, buckets: [{amount: 2}, {amount: 3}]}]}}`)
	written, err := plan.Objects("milo")
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"enforcementMode":"Audit"`, `"name":"g"`, `"quota.miloapis.com/imported-from":"milo"`} {
		if !strings.Contains(string(content), part) {
			t.Errorf("it writes no %s: %s", part, content)
		}
	}
	for _, part := range []string{`"made"`, `"uid"`, "finalizers", "status"} {
		if strings.Contains(string(content), part) {
			t.Errorf("it writes %s: %s", part, content)
		}
	}
	if len(plan.Notes) != 1 || plan.Notes[0].What != "ClaimCreationPolicy p: spec.novelty.set" {
		t.Errorf("the notes are %+v", plan.Notes)
	}
	if len(plan.TakenOver) != 1 || plan.TakenOver[0].Limit != 5 {
		t.Errorf("taken over is %+v", plan.TakenOver)
	}
}

// TestMiloGrantsOfPolicies leaves out grants as Milo's policies make them: their only mark is the object they are for.
func TestMiloGrantsOfPolicies(t *testing.T) {
	grantOf := func(name, ownerKind string) string {
		return fmt.Sprintf(`{apiVersion: quota.miloapis.com/v1alpha1, kind: ResourceGrant, metadata: {name: %s, namespace: organization-acme, ownerReferences: [`+
			`{apiVersion: resourcemanager.miloapis.com/v1alpha1, kind: %s, name: acme, uid: u, controller: true, blockOwnerDeletion: true}]}, `+
			`spec: {consumerRef: {apiGroup: resourcemanager.miloapis.com, kind: Organization, name: acme}, allowances: [{resourceType: s, buckets: [{amount: 2}]}]}}`, name, ownerKind)
	}
	r, plan := miloPlan(t, false, grantOf("default-acme-grant", "Organization"), grantOf("sold", "Contract"),
		`{apiVersion: quota.miloapis.com/v1alpha1, kind: GrantCreationPolicy, metadata: {name: default}, spec: {trigger: {resource: {apiVersion: resourcemanager.miloapis.com/v1, kind: Organization}}, `+
			`target: {resourceGrantTemplate: {metadata: {namespace: "organization-{{trigger.metadata.name}}"}, spec: {consumerRef: {kind: Organization, name: "{{trigger.metadata.name}}"}, allowances: [{resourceType: s, buckets: [{amount: 2}]}]}}}}}`)
	if len(r.made) != 1 || r.made[0].Name != "default-acme-grant" {
		t.Errorf("made by policies are %+v", r.made)
	}
	if !slices.ContainsFunc(r.notes, func(n Note) bool { return strings.Contains(fmt.Sprint(n), ": organization-acme/default-acme-grant;") }) {
		t.Errorf("no note names the grant: %+v", r.notes)
	}
	if len(plan.Grants) != 1 || plan.Grants[0].Name != "sold" || len(plan.GrantPolicies) != 1 {
		t.Errorf("the plan has the grants %+v and policies %+v", plan.Grants, plan.GrantPolicies)
	}
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]struct {
		of     unit
		amount int64
	}{"2": {cores, 2000}, "1500m": {cores, 1500}, "1Gi": {bytes, 1 << 30}, "2500m": {bytes, 2}, "1e30": {bytes, -1}, "-1": {bytes, -1}} {
		quantity := parsed[struct{ Q corev1.ResourceList }](t, `{q: {a: "`+text+`"}}`)[0].Q["a"]
		got, err := amountOf(quantity, want.of)
		if want.amount < 0 {
			if err == nil {
				t.Errorf("%s: got %d, want an error", text, got)
			}
			continue
		}
		if err != nil || got != want.amount {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want.amount)
		}
	}
}

// miloPlan reads objects as an import from Milo does, and plans it.
func miloPlan(t *testing.T, inPlace bool, contents ...string) (*reading, *Plan) {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, content := range parsed[map[string]any](t, contents...) {
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	r, err := fromMilo(objects, inPlace)
	if err != nil {
		t.Fatal(err)
	}
	plan := build("milo", mapper(), nil, newEarlier(), nil)
	if err := plan.addObjects(r.objects, newEarlier()); err != nil {
		t.Fatal(err)
	}
	return r, plan
}

// TestRolesAreBackedUp finds the role of each former system among those that a backup has.
func TestRolesAreBackedUp(t *testing.T) {
	for _, source := range Sources() {
		name := (&Plan{}).role(source).GetName()
		if !slices.Contains(quotakinds.ImportedRoles.Names, name) {
			t.Errorf("a backup leaves out the ClusterRole %s", name)
		}
	}
}
