package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/policy"
)

// planned plans an import from ResourceQuotas after an earlier one.
func planned(t *testing.T, before *earlier, prune bool, quotas ...string) *Plan {
	t.Helper()
	i := &importer{Options: Options{From: "resourcequota", Prune: prune}, mapper: mapper(), target: &cluster{namespaces: parsed[corev1.Namespace](t, `{metadata: {name: shop}}`, `{metadata: {name: mall}}`)}}
	plan, err := i.plan(fromResourceQuotas(parsed[corev1.ResourceQuota](t, quotas...)), before)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// written returns the objects of a plan as a later import finds them. change may alter each of them.
func written(t *testing.T, source string, plan *Plan, change func(*unstructured.Unstructured)) *earlier {
	t.Helper()
	all, err := plan.placed(source)
	if err != nil {
		t.Fatal(err)
	}
	e := newEarlier()
	for _, each := range all {
		if !slices.Contains(prunable, each.resource) {
			continue
		}
		if change != nil {
			change(each.object)
		}
		if err := e.add(each.resource, each.object); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func inMode(mode string) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		if object.GetKind() == "ClaimCreationPolicy" {
			object.Object["spec"].(map[string]any)["enforcementMode"] = mode
		}
	}
}

// outline is a plan in lines: policies with their types, grants, namespaces, and leftovers.
func outline(plan *Plan) []string {
	var lines []string
	for _, p := range plan.Policies {
		lines = append(lines, fmt.Sprintf("%s %s charges %s", modeOf(p), p.Spec.Trigger.Resource.Kind, strings.Join(p.Spec.Target.ResourceClaimTemplate.Spec.ResourceTypes(), " ")))
	}
	for _, g := range plan.Grants {
		for _, a := range g.Spec.Allowances {
			lines = append(lines, fmt.Sprintf("%s/%s gives %s=%d", g.Namespace, g.Name, a.ResourceType, sumOf(a.Buckets)))
		}
	}
	for _, namespace := range sortedKeys(plan.Limited) {
		lines = append(lines, namespace+" is limited in "+strings.Join(plan.Limited[namespace], ","))
	}
	for what, all := range map[string][]Leftover{"keep ": plan.Kept, "delete ": plan.Deleted} {
		for _, l := range all {
			lines = append(lines, strings.TrimSpace(what+l.Object+" "+l.ResourceType))
		}
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "resourcequota/", "")
	}
	slices.Sort(lines)
	return lines
}

func TestImportAgain(t *testing.T) {
	const compute, services = `{metadata: {name: compute, namespace: shop}, spec: {hard: {count/secrets: 2, pods: 4}}}`, `{metadata: {name: net, namespace: shop}, spec: {hard: {services: 3}}}`
	tests := map[string]struct {
		reason string
		mode   string
		prune  bool
		change func(*unstructured.Unstructured)
		before []string
		after  []string
		want   []string
	}{
		"more resources of a kind": {"the same policy charges them, in its mode", "Enforce", false, nil,
			[]string{compute},
			[]string{`{metadata: {name: compute, namespace: shop}, spec: {hard: {count/secrets: 2, pods: 4, requests.cpu: 2}}}`},
			[]string{
				"Enforce Pod charges pods requests.cpu", "Enforce Secret charges count/secrets", "shop is limited in count/secrets,pods,requests.cpu",
				"shop/imported-resourcequota gives count/secrets=2", "shop/imported-resourcequota gives pods=4", "shop/imported-resourcequota gives requests.cpu=2000",
			}},
		"another kind": {"a new policy has the mode of the others", "Warn", false, nil,
			[]string{compute}, []string{compute, services},
			[]string{
				"Warn Pod charges pods", "Warn Secret charges count/secrets", "Warn Service charges services", "shop is limited in count/secrets,pods,services",
				"shop/imported-resourcequota gives count/secrets=2", "shop/imported-resourcequota gives pods=4", "shop/imported-resourcequota gives services=3",
			}},
		"a removed resource": {"the former system still has the object, so a person removed the limit", "Enforce", false, nil,
			[]string{compute}, []string{`{metadata: {name: compute, namespace: shop}, spec: {hard: {pods: 4}}}`},
			[]string{
				"Enforce Pod charges pods", "delete ClaimCreationPolicy resourcequota-secret-count-secrets-HASH",
				"delete ResourceGrant shop/imported-resourcequota count/secrets", "delete ResourceRegistration resourcequota-count-secrets-HASH",
				"shop is limited in pods", "shop/imported-resourcequota gives pods=4",
			}},
		"enforced, and its object is gone": {"the switch is over, and the limit stays with its present amount", "Enforce", false,
			func(object *unstructured.Unstructured) {
				if object.GetKind() == "ResourceGrant" {
					allowance := object.Object["spec"].(map[string]any)["allowances"].([]any)[0].(map[string]any)
					allowance["buckets"].([]any)[0].(map[string]any)["amount"] = int64(7)
				}
			},
			[]string{compute, services}, []string{services},
			[]string{
				"Enforce Pod charges pods", "Enforce Secret charges count/secrets", "Enforce Service charges services",
				"keep ResourceQuota shop/compute count/secrets", "keep ResourceQuota shop/compute pods", "shop is limited in count/secrets,pods,services",
				"shop/imported-resourcequota gives count/secrets=7", "shop/imported-resourcequota gives pods=4", "shop/imported-resourcequota gives services=3",
			}},
		"pruned": {"--prune deletes enforced limits", "Enforce", true, nil,
			[]string{compute, services}, []string{services},
			[]string{
				"Enforce Service charges services", "delete ClaimCreationPolicy resourcequota-pod-HASH", "delete ClaimCreationPolicy resourcequota-secret-count-secrets-HASH",
				"delete ResourceGrant shop/imported-resourcequota count/secrets", "delete ResourceGrant shop/imported-resourcequota pods",
				"delete ResourceRegistration resourcequota-count-secrets-HASH", "delete ResourceRegistration resourcequota-pods-HASH",
				"shop is limited in services", "shop/imported-resourcequota gives services=3",
			}},
		"audited, and its object is gone": {"nobody relies on it", "Audit", false, nil,
			[]string{services}, nil,
			[]string{
				"delete ClaimCreationPolicy resourcequota-service-HASH", "delete QuotaConsumer shop/shop", "delete ResourceGrant shop/imported-resourcequota services",
				"delete ResourceRegistration resourcequota-services-HASH",
			}},
		"taken over by another object": {"the former system still has the limit", "Enforce", false, nil,
			[]string{compute}, []string{`{metadata: {name: renamed, namespace: shop}, spec: {hard: {count/secrets: 9, pods: 4}}}`},
			[]string{
				"Enforce Pod charges pods", "Enforce Secret charges count/secrets", "shop is limited in count/secrets,pods",
				"shop/imported-resourcequota gives count/secrets=9", "shop/imported-resourcequota gives pods=4",
			}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := written(t, "resourcequota", planned(t, newEarlier(), false, tt.before...), func(object *unstructured.Unstructured) {
				inMode(tt.mode)(object)
				if tt.change != nil {
					tt.change(object)
				}
			})
			got := outline(planned(t, before, tt.prune, tt.after...))
			for i := range got {
				if at := strings.LastIndex(got[i], "-"); strings.HasPrefix(got[i], "delete ClaimC") || strings.HasPrefix(got[i], "delete ResourceReg") {
					got[i] = got[i][:at] + "-HASH"
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// TestNothingToDo checks that a repeated import of the same limits writes nothing, and a changed one only the
// difference.
func TestNothingToDo(t *testing.T) {
	const shop, mall = `{metadata: {name: a, namespace: shop}, spec: {hard: {count/secrets: 2, pods: 1}}}`, `{metadata: {name: a, namespace: mall}, spec: {hard: {count/secrets: %d}}}`
	defaults := func(object *unstructured.Unstructured) {
		object.SetUID("x")
		if object.GetKind() == "ClaimCreationPolicy" {
			object.Object["spec"].(map[string]any)["enabled"] = true
		}
	}
	first := planned(t, newEarlier(), false, shop, fmt.Sprintf(mall, 3))
	before := written(t, "resourcequota", first, defaults)
	i := &importer{target: &cluster{namespaces: parsed[corev1.Namespace](t,
		`{metadata: {name: shop, annotations: {quota.miloapis.com/imported-limits-resourcequota: "count/secrets,pods"}}}`,
		`{metadata: {name: mall, annotations: {quota.miloapis.com/imported-limits-resourcequota: count/secrets}}}`)}}
	for amount, want := range map[int][]string{3: nil, 4: {"ResourceGrant mall/imported-resourcequota"}} {
		all, err := planned(t, before, false, shop, fmt.Sprintf(mall, amount)).placed("resourcequota")
		if err != nil {
			t.Fatal(err)
		}
		if all, err = i.changes(all, before); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, each := range all {
			if slices.Contains(prunable, each.resource) || each.resource == namespacesAPI {
				got = append(got, objectRef(each.object.GetKind(), each.object.GetNamespace(), each.object.GetName()))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with %d Secrets (-want +got):\n%s", amount, diff)
		}
	}
}

// TestModesDiffer checks that a new policy does not deny by surprise while an administrator rolls out step by step, and
// that the report says so.
func TestModesDiffer(t *testing.T) {
	const compute = `{metadata: {name: compute, namespace: shop}, spec: {hard: {count/secrets: 2, pods: 4}}}`
	before := written(t, "resourcequota", planned(t, newEarlier(), false, compute), func(object *unstructured.Unstructured) {
		if strings.Contains(object.GetName(), "secret") {
			inMode("Enforce")(object)
		}
	})
	plan := planned(t, before, false, compute, `{metadata: {name: net, namespace: shop}, spec: {hard: {services: 3}}}`)
	for _, p := range plan.Policies {
		want := quotav1alpha1.EnforcementModeAudit
		if p.Spec.Trigger.Resource.Kind == "Secret" {
			want = quotav1alpha1.EnforcementModeEnforce
		}
		if p.Spec.EnforcementMode != want {
			t.Errorf("the policy for %s has the mode %s, want %s", p.Spec.Trigger.Resource.Kind, p.Spec.EnforcementMode, want)
		}
	}
	if !slices.ContainsFunc(plan.Notes, func(n Note) bool { return strings.Contains(n.Why, "several modes") }) {
		t.Errorf("no note tells it: %+v", plan.Notes)
	}
}

// TestRevision checks that a policy changes with the namespaces under it, and with nothing else. Otherwise Bursar would
// not charge the existing objects of a namespace with a new limit, or would look at all objects again in vain.
func TestRevision(t *testing.T) {
	const shop, mall = `{metadata: {name: a, namespace: shop}, spec: {hard: {count/secrets: 2}}}`, `{metadata: {name: a, namespace: mall}, spec: {hard: {%s: 2}}}`
	message := func(quotas ...string) string {
		for _, p := range planned(t, newEarlier(), false, quotas...).Policies {
			if p.Spec.Trigger.Resource.Kind == "Secret" {
				return p.Spec.Trigger.Conditions[0].Message
			}
		}
		return ""
	}
	before := message(shop)
	for name, tt := range map[string]struct {
		quotas  []string
		changes bool
	}{
		"the same":                  {[]string{shop}, false},
		"another amount":            {[]string{strings.Replace(shop, "2", "3", 1)}, false},
		"one more namespace":        {[]string{shop, fmt.Sprintf(mall, "count/secrets")}, true},
		"another namespace instead": {[]string{fmt.Sprintf(mall, "count/secrets")}, true},
		"a limit on Pods elsewhere": {[]string{shop, fmt.Sprintf(mall, "pods")}, false},
		"a limit on Pods beside it": {[]string{shop, strings.Replace(shop, "count/secrets", "pods", 1)}, false},
	} {
		if after := message(tt.quotas...); before == "" || (after != before) != tt.changes {
			t.Errorf("%s: the policy has %q, and had %q", name, after, before)
		}
	}
}

func TestParts(t *testing.T) {
	types := func(from, to int) (all []string) {
		for n := from; n < to; n++ {
			all = append(all, fmt.Sprintf("t%02d", n))
		}
		return all
	}
	earlier := map[int][]string{1: types(10, 20), 2: append(types(30, 35), "gone")}
	got := parts(types(5, 40), 12, func(n int) []string { return earlier[n] })
	want := map[int][]string{1: append(types(5, 7), types(10, 20)...), 2: append(types(7, 10), append(types(20, 24), types(30, 35)...)...), 3: append(types(24, 30), types(35, 40)...)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestManySelectors checks that a selector with many requirements becomes a valid policy with the same meaning, or a
// note.
func TestManySelectors(t *testing.T) {
	quota := func(requirements, length int) string {
		var all []string
		for n := range requirements {
			all = append(all, fmt.Sprintf("{key: k%d, operator: NotIn, values: [%s]}", n, strings.Repeat("v", length)))
		}
		return `{metadata: {name: many}, spec: {selector: {labels: {matchExpressions: [` + strings.Join(all, ", ") + `]}}, quota: {hard: {count/secrets: 9}}}}`
	}
	r := fromClusterResourceQuotas(parsed[clusterResourceQuota](t, quota(25, 5)), "bursar-system")
	plan := build("clusterresourcequota", mapper(), r.limits, newEarlier(), nil)
	if len(plan.Policies) != 1 {
		t.Fatalf("there are %d policies", len(plan.Policies))
	}
	compiled, errs := policy.Compile(plan.Policies[0])
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	for label, want := range map[string]bool{"other": true, "vvvvv": false} {
		namespace := map[string]any{"metadata": map[string]any{"name": "a", "labels": map[string]any{"k24": label}}}
		got, err := compiled.Matches(t.Context(), policy.Input{Object: map[string]any{"kind": "Secret"}, NamespaceObject: namespace, WithoutRequest: true})
		if got != want || err != nil {
			t.Errorf("with the label %s it matches: %t, %v", label, got, err)
		}
	}
	r = fromClusterResourceQuotas(parsed[clusterResourceQuota](t, quota(25, 500)), "bursar-system")
	plan = build("clusterresourcequota", mapper(), r.limits, newEarlier(), nil)
	if len(plan.Policies) != 0 || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0].Why, "25 conditions") {
		t.Errorf("the notes are %+v", plan.Notes)
	}
}

// TestLongAmounts checks that every resource of ResourceQuotas gets a valid policy for namespaces with limits of their
// own, also with long names.
func TestLongAmounts(t *testing.T) {
	names := []string{"requests.memory", "limits.ephemeral-storage", "requests.hugepages-2Mi", "requests.an-extended-resource.of.a.vendor.example.com/accelerator-of-a-kind",
		"a-storage-class-with-a-name.storageclass.storage.k8s.io/requests.storage", "services.nodeports", "persistentvolumeclaims"}
	for _, name := range names {
		plan := planned(t, newEarlier(), false, `{metadata: {name: a, namespace: shop}, spec: {hard: {`+name+`: 1}}}`)
		if len(plan.Policies) != 1 {
			t.Errorf("%s: the notes are %+v", name, plan.Notes)
			continue
		}
		if _, errs := policy.Compile(plan.Policies[0]); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs.ToAggregate())
		}
	}
}

// TestTwoSystemsInANamespace checks that imports from two systems share no name.
func TestTwoSystemsInANamespace(t *testing.T) {
	names := map[string]bool{}
	for _, source := range []string{"resourcequota", "openmcp", "capsule"} {
		limits := []Limit{ownLimit(source, "x", "shop", &corev1.ResourceQuotaSpec{Hard: parsed[corev1.ResourceList](t, `{count/secrets: 2, pods: 1}`)[0]})}
		all, err := build(source, mapper(), limits, newEarlier(), nil).placed(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, each := range all {
			key := keyOf(each.resource, each.object) + strings.Join(sortedKeys(each.object.GetAnnotations()), " ")
			isShared := slices.Contains([]schema.GroupVersionResource{definitions, admissionPolicies, admissionBindings}, each.resource)
			if names[key] && !isShared {
				t.Errorf("two imports write %s", key)
			}
			names[key] = true
		}
	}
}

// TestUseOfMilo checks the reached limits: features deny nothing, a consumer without a grant has the limit 0, and the
// grants that policies made count.
func TestUseOfMilo(t *testing.T) {
	plan := &Plan{
		Registrations: parsed[*quotav1alpha1.ResourceRegistration](t, `{spec: {resourceType: feature, type: Feature}}`, `{spec: {resourceType: s, type: Entity}}`),
		Grants: parsed[*quotav1alpha1.ResourceGrant](t,
			`{spec: {consumerRef: {kind: K, name: a}, allowances: [{resourceType: s, buckets: [{amount: 2}]}, {resourceType: feature, buckets: [{amount: 1}]}]}}`,
			`{spec: {consumerRef: {kind: K, name: a}, notAfter: "2020-01-01T00:00:00Z", allowances: [{resourceType: s, buckets: [{amount: 50}]}]}}`),
		made: parsed[*quotav1alpha1.ResourceGrant](t, `{spec: {consumerRef: {kind: K, name: made}, allowances: [{resourceType: s, buckets: [{amount: 9}]}]}}`),
	}
	tally := newTally(plan, nil, "x", "bursar-system")
	consumer := func(name string) quotav1alpha1.ConsumerRef { return quotav1alpha1.ConsumerRef{Kind: "K", Name: name} }
	tally.sums[used{consumer("a"), "s"}] = 3
	tally.sums[used{consumer("a"), "feature"}] = 7
	tally.sums[used{consumer("made"), "s"}] = 5
	tally.sums[used{consumer("none"), "s"}] = 1
	want := []Short{{consumer("a"), "s", 3, 2}, {consumer("none"), "s", 1, 0}}
	if diff := cmp.Diff(want, tally.short()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTally counts objects by the annotations that an import writes, and keeps the first error of a policy.
func TestTally(t *testing.T) {
	plan := planned(t, newEarlier(), false, `{metadata: {name: a, namespace: shop}, spec: {hard: {count/secrets: 2}}}`)
	failing := plan.Policies[0].DeepCopy()
	failing.Name, failing.Spec.Trigger.Conditions = "failing", []quotav1alpha1.ConditionExpression{{Expression: `trigger.spec.missing == "x"`}}
	plan.Policies = append(plan.Policies, failing)
	const annotation = quotav1alpha1.AnnotationImportedLimits + "resourcequota"
	tally := newTally(plan, parsed[corev1.Namespace](t, `{metadata: {name: shop}}`, `{metadata: {name: other, annotations: {`+annotation+`: count/secrets}}}`), annotation, "bursar-system")
	for _, namespace := range []string{"shop", "other", "newer"} {
		secret := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": namespace, "uid": namespace}}}
		if err := tally.add(t.Context(), corev1.SchemeGroupVersion.WithKind("Secret"), secret); err != nil {
			t.Fatal(err)
		}
	}
	if len(tally.sums) != 1 || tally.sums[used{plan.Grants[0].Spec.ConsumerRef, "resourcequota/count/secrets"}] != 1 {
		t.Errorf("the sums are %+v", tally.sums)
	}
	if f := tally.failed["failing"]; f == nil || f.count != 2 || !strings.Contains(f.err.Error(), "Secret shop/s: ") || !strings.Contains(f.err.Error(), "missing") {
		t.Errorf("the failures are %+v", tally.failed)
	}
}

// TestMiloInPlace checks what an import takes over on the server itself.
func TestMiloInPlace(t *testing.T) {
	object := func(name, more string) string {
		return `{apiVersion: quota.miloapis.com/v1alpha1, kind: ClaimCreationPolicy, metadata: {name: ` + name + more + `, trigger: {resource: {apiVersion: v1, kind: Secret}}, target: {resourceClaimTemplate: {spec: {requests: [{resourceType: s, amount: 1}]}}}}}`
	}
	r, plan := miloPlan(t, true, object("milos", `}, spec: {enforcementMode: Enforce`), object("warns", `}, spec: {enforcementMode: Warn`),
		object("others", `, labels: {quota.miloapis.com/imported-from: resourcequota}}, spec: {enforcementMode: Enforce`))
	plan.setModes(newEarlier())
	if len(plan.Policies) != 1 || !slices.Equal(plan.Audited, []string{"milos"}) || plan.Policies[0].Annotations[quotav1alpha1.AnnotationImportedMode] != "Enforce" {
		t.Errorf("the policies are %+v, and these stop enforcing: %v", plan.Policies, plan.Audited)
	}
	if len(r.notes) != 3 {
		t.Errorf("the notes are %+v", r.notes)
	}
	if err := (&importer{Options: Options{From: "milo"}}).check(t.Context(), plan, newEarlier()); err == nil || !strings.Contains(err.Error(), "--in-place") {
		t.Errorf("without --in-place the import got %v", err)
	}
}

// TestLargeGrant checks that a grant with more allowances than Bursar takes becomes several.
func TestLargeGrant(t *testing.T) {
	g := quotav1alpha1.ResourceGrant{}
	g.Name, g.Namespace, g.Kind = "large", "a", "ResourceGrant"
	for n := range 45 {
		g.Spec.Allowances = append(g.Spec.Allowances, quotav1alpha1.Allowance{ResourceType: fmt.Sprint("t", n), Buckets: []quotav1alpha1.Bucket{{Amount: 1}}})
	}
	all, err := appendPlaced(nil, nil, grants, "ResourceGrant", &g)
	if err != nil {
		t.Fatal(err)
	}
	plan := &Plan{}
	if err := plan.addObjects([]*unstructured.Unstructured{all[0].object}, newEarlier()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range plan.Grants {
		got = append(got, fmt.Sprintf("%s %d", types.NamespacedName{Namespace: one.Namespace, Name: one.Name}, len(one.Spec.Allowances)))
	}
	if diff := cmp.Diff([]string{"a/large 20", "a/large-2 20", "a/large-3 5"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
