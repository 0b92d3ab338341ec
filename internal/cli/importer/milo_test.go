package importer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	miloTarget = `target: {resourceClaimTemplate: {metadata: {}, spec: {consumerRef: {apiGroup: example.com, kind: Team, name: x}, requests: [%s]}}}`
	miloMeta   = `apiVersion: quota.miloapis.com/v1alpha1, kind: %s, metadata: {name: %s, namespace: %q}`
)

// miloPolicy is a policy for claims of Secrets, and miloRegistration a registration.
func miloPolicy(name, requests string) string {
	return fmt.Sprintf(`{`+miloMeta+`, spec: {trigger: {resource: {apiVersion: v1, kind: Secret}}, `+miloTarget+`}}`, "ClaimCreationPolicy", name, "", requests)
}

func miloRegistration(name, description string) string {
	return fmt.Sprintf(`{`+miloMeta+`, spec: {resourceType: example.com/%s, type: Entity, description: %q, `+
		`consumerTypeRef: {apiGroup: example.com, kind: Team}, baseUnit: one, displayUnit: one, unitConversionFactor: 1}}`, "ResourceRegistration", name, "", name, description)
}

// miloGrantPolicy is a policy for grants with a number of allowances, and fields of the metadata of its grants.
func miloGrantPolicy(name string, allowances int, metadata string) string {
	return fmt.Sprintf(`{`+miloMeta+`, spec: {trigger: {resource: {apiVersion: example.com/v1, kind: Team}}, `+
		`target: {resourceGrantTemplate: {metadata: {%s}, spec: {consumerRef: {apiGroup: example.com, kind: Team, name: "{{trigger.metadata.name}}"}, allowances: [%s]}}}}}`,
		"GrantCreationPolicy", name, "", metadata, miloAllowances(allowances))
}

func miloGrant(name string, amount int) string {
	return fmt.Sprintf(`{`+miloMeta+`, spec: {consumerRef: {apiGroup: example.com, kind: Team, name: x}, allowances: [{resourceType: example.com/a, buckets: [{amount: %d}]}]}}`,
		"ResourceGrant", name, "shop", amount)
}

func miloAllowances(count int) string {
	var all []string
	for n := range count {
		all = append(all, fmt.Sprintf("{resourceType: example.com/type-%d, buckets: [{amount: %d}]}", n, n))
	}
	return strings.Join(all, ", ")
}

// miloAgain plans an import from Milo after an earlier one.
func miloAgain(t *testing.T, before *earlier, contents ...string) *Plan {
	t.Helper()
	r, _ := miloPlan(t, false, contents...)
	i := &importer{Options: Options{From: "milo"}, mapper: mapper(), target: &cluster{}}
	plan, err := i.plan(r, before)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestMiloMarksOfOtherKinds takes over other objects with the label of a policy's grant: only grants are made again.
func TestMiloMarksOfOtherKinds(t *testing.T) {
	var contents []string
	for _, content := range []string{miloRegistration("a", ""), miloPolicy("p", "{resourceType: example.com/a, amount: 1}"), miloGrantPolicy("g", 1, "")} {
		contents = append(contents, strings.Replace(content, "metadata: {", `metadata: {labels: {quota.miloapis.com/auto-created: "true"}, `, 1))
	}
	r, plan := miloPlan(t, false, contents...)
	if len(r.made) != 0 || len(plan.Registrations) != 1 || len(plan.Policies) != 1 || len(plan.GrantPolicies) != 1 {
		t.Errorf("made by policies are %+v, and the plan has %d registrations, %d policies for claims and %d for grants",
			r.made, len(plan.Registrations), len(plan.Policies), len(plan.GrantPolicies))
	}
}

// TestDividedGrantPolicies divides policies with more than 20 allowances. Each part makes grants of its own names, in
// all with the same amounts.
func TestDividedGrantPolicies(t *testing.T) {
	plan := miloAgain(t, newEarlier(),
		miloGrantPolicy("few", 20, `name: "few-{{trigger.metadata.name}}"`),
		miloGrantPolicy("many", 41, `name: "many-{{trigger.metadata.name}}", namespace: shop, labels: {tier: gold}`),
		miloGrantPolicy("prefix", 21, `generateName: "x-"`),
		miloGrantPolicy("nameless", 21, ""))
	var got []string
	amounts := map[string]int64{}
	for _, p := range plan.GrantPolicies {
		template := p.Spec.Target.ResourceGrantTemplate
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s: %d %s%s %s%s", p.Name, len(template.Spec.Allowances), template.Metadata.Name, template.Metadata.GenerateName,
			template.Metadata.Namespace, template.Metadata.Labels["tier"])))
		for _, a := range template.Spec.Allowances {
			amounts[strings.Split(p.Name, "-")[0]] += sumOf(a.Buckets)
		}
	}
	want := []string{
		"few: 20 few-{{trigger.metadata.name}}",
		"many: 20 many-{{trigger.metadata.name}} shopgold", "many-2: 20 many-{{trigger.metadata.name}}-2 shopgold", "many-3: 1 many-{{trigger.metadata.name}}-3 shopgold",
		"prefix: 20 x-", "prefix-2: 1 x-", "nameless: 20", "nameless-2: 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"few": 190, "many": 820, "prefix": 210, "nameless": 210}, amounts); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	wantNotes(t, plan, nil)
	if again := miloAgain(t, written(t, "milo", plan, nil), miloGrantPolicy("many", 41, "")); len(again.GrantPolicies) != 3 || len(again.Deleted) != 5 {
		t.Errorf("again, it has %d policies for grants and deletes %+v", len(again.GrantPolicies), again.Deleted)
	}
	_, plan = miloPlan(t, true, miloGrantPolicy("many", 41, ""))
	if len(plan.GrantPolicies) != 1 {
		t.Errorf("in place, it has %d policies for grants", len(plan.GrantPolicies))
	}
}

// TestDividedAgain takes an allowance from a divided object of each kind. The others stay in their parts, so no
// consumer gets one twice.
func TestDividedAgain(t *testing.T) {
	first := miloAgain(t, newEarlier(), miloGrantPolicy("p", 21, ""), miloGrant("g", 1))
	before := written(t, "milo", first, inMode(string(quotav1alpha1.EnforcementModeEnforce)))
	plan := miloAgain(t, before, miloGrantPolicy("p", 20, ""), miloGrant("g", 1))
	types := map[string]int{}
	for _, p := range plan.GrantPolicies {
		for _, resourceType := range p.Spec.Target.ResourceGrantTemplate.Spec.ResourceTypes() {
			types[resourceType]++
			if !slices.Contains(before.grantedByPolicy(p.Name), resourceType) {
				t.Errorf("%s moves to policy %s", resourceType, p.Name)
			}
		}
	}
	if len(types) != 20 || slices.Max(slices.Collect(maps.Values(types))) > 1 || len(plan.Kept) > 0 {
		t.Errorf("the policies give %v, and the import keeps %+v", types, plan.Kept)
	}
}

// TestPartsWithTakenNames stops if a part of a divided object would have the name of another object.
func TestPartsWithTakenNames(t *testing.T) {
	plan := miloAgain(t, newEarlier(), miloGrantPolicy("p", 21, ""), miloGrantPolicy("p-2", 1, ""))
	err := (&importer{Options: Options{From: "milo"}}).check(t.Context(), plan, newEarlier())
	if err == nil || !strings.Contains(err.Error(), "GrantCreationPolicy p-2") {
		t.Errorf("got %v, want the name", err)
	}
	again := miloAgain(t, written(t, "milo", miloAgain(t, newEarlier(), miloGrantPolicy("q", 1, ""), miloGrantPolicy("q-2", 1, "")), nil),
		miloGrantPolicy("q", 1, ""), miloGrantPolicy("q-2", 1, ""))
	if len(again.GrantPolicies) != 2 {
		t.Errorf("two policies with such names become %d", len(again.GrantPolicies))
	}
}

// TestInvalidForBursar leaves out what Milo accepts and Bursar rejects, with the reason. The others are taken over.
func TestInvalidForBursar(t *testing.T) {
	const good = "{resourceType: example.com/a, amount: 1}"
	contents := []string{
		miloRegistration("a", "short"), miloRegistration("b", strings.Repeat("x", 501)),
		miloPolicy("good", good), miloPolicy("empty", ""), miloPolicy("twice", good+", "+good),
		miloPolicy("long", `{resourceType: example.com/`+strings.Repeat("x", 253)+`, amount: 1}`),
		miloGrant("fine", 1), miloGrant("negative", -1), miloGrantPolicy("fine", 1, ""), miloGrantPolicy("broken", 1, `name: "{{"`),
	}
	left := []string{
		"ResourceRegistration b: spec.description: Too long", "ClaimCreationPolicy empty: spec.target", "ClaimCreationPolicy twice: spec.target", "ClaimCreationPolicy long: spec.target",
		"ResourceGrant shop/negative: spec.allowances[0]", "GrantCreationPolicy broken: spec.target",
	}
	plan := miloAgain(t, newEarlier(), contents...)
	wantNotes(t, plan, left)
	if len(plan.Registrations) != 1 || len(plan.Policies) != 1 || len(plan.Grants) != 1 || len(plan.GrantPolicies) != 1 {
		t.Errorf("the plan is %+v", plan)
	}
	if len(plan.TakenOver) != 1 || plan.TakenOver[0].From != "ResourceGrant shop/fine" {
		t.Errorf("taken over is %+v", plan.TakenOver)
	}

	// While a policy enforces, no consumer must lack a grant, and no policy a registration: the server rejects these.
	enforced := written(t, "milo", plan, inMode(string(quotav1alpha1.EnforcementModeEnforce)))
	plan = miloAgain(t, enforced, contents...)
	wantNotes(t, plan, left[1:4])
	if len(plan.Registrations) != 2 || len(plan.Grants) != 2 || len(plan.GrantPolicies) != 2 {
		t.Errorf("enforced, the plan has %d registrations, %d grants and %d policies for grants", len(plan.Registrations), len(plan.Grants), len(plan.GrantPolicies))
	}

	_, plan = miloPlan(t, true, contents...)
	if plan.leaveOutInvalid(newEarlier()); len(plan.Notes) != 0 || len(plan.Policies) != 4 {
		t.Errorf("in place, it has %d policies and the notes %+v", len(plan.Policies), plan.Notes)
	}
}

// wantNotes checks the notes of a plan, besides that on claims.
func wantNotes(t *testing.T, plan *Plan, wants []string) {
	t.Helper()
	wants = append(slices.Clone(wants), "ResourceClaims: Bursar makes them")
	if len(plan.Notes) != len(wants) {
		t.Errorf("there are %d notes, want %d: %+v", len(plan.Notes), len(wants), plan.Notes)
	}
	for _, want := range wants {
		what, why, _ := strings.Cut(want, ": ")
		if !slices.ContainsFunc(plan.Notes, func(n Note) bool { return n.What == what && strings.Contains(n.Why, why) }) {
			t.Errorf("there is no note %q in %+v", want, plan.Notes)
		}
	}
}

// TestInvalidAgain keeps an imported object that has become invalid in Milo as it is, in any mode.
func TestInvalidAgain(t *testing.T) {
	for _, mode := range []quotav1alpha1.EnforcementMode{quotav1alpha1.EnforcementModeAudit, quotav1alpha1.EnforcementModeEnforce} {
		const good = "{resourceType: example.com/a, amount: 1}"
		var keys []string
		before := written(t, "milo", miloAgain(t, newEarlier(), miloRegistration("a", ""), miloPolicy("p", good), miloPolicy("gone", good)), inMode(string(mode)))
		plan := miloAgain(t, before, miloRegistration("a", strings.Repeat("x", 501)), miloPolicy("p", ""))
		for resource, objects := range before.objects {
			for _, object := range objects {
				if plan.kept[keyOf(resource, object)] && object.GetName() != "gone" {
					keys = append(keys, object.GetName())
				}
			}
		}
		slices.Sort(keys)
		leftovers := slices.Concat(plan.Kept, plan.Deleted)
		if diff := cmp.Diff([]string{"a", "p"}, keys); diff != "" || len(leftovers) != 1 || leftovers[0].Object != "ClaimCreationPolicy gone" {
			t.Errorf("%s: it keeps %+v and deletes %+v, and leaves alone (-want +got):\n%s", mode, plan.Kept, plan.Deleted, diff)
		}
		all, err := (&importer{target: &cluster{}}).changes(placedOf(t, plan), before)
		if err != nil || len(all) != 0 {
			t.Errorf("%s: it would write %+v, %v", mode, all, err)
		}
	}
}

func placedOf(t *testing.T, plan *Plan) []placed {
	t.Helper()
	all, err := plan.placed("milo")
	if err != nil {
		t.Fatal(err)
	}
	return all
}
