package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
)

// grantPolicy gives 5 of the world's resource type to its consumer for each gold ConfigMap of the world.
func (w *world) grantPolicy(change func(*quotav1alpha1.GrantCreationPolicy)) *quotav1alpha1.GrantCreationPolicy {
	policy := &quotav1alpha1.GrantCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Spec: quotav1alpha1.GrantCreationPolicySpec{
			Trigger: quotav1alpha1.GrantTrigger{
				Resource: quotav1alpha1.GrantTriggerResource{APIVersion: "v1", Kind: "ConfigMap"},
				Conditions: []quotav1alpha1.ConditionExpression{
					{Expression: fmt.Sprintf("object.metadata.namespace == %q && object.metadata.name != 'kube-root-ca.crt'", w.name)},
					{Expression: `object.data.tier == "gold"`},
				},
			},
			Target: quotav1alpha1.GrantTarget{ResourceGrantTemplate: quotav1alpha1.ResourceGrantTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: "for-{{.trigger.metadata.name}}"},
				Spec: quotav1alpha1.ResourceGrantSpec{
					ConsumerRef: w.consumer(),
					Allowances:  []quotav1alpha1.Allowance{{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: 5}}}},
				},
			}},
		},
	}
	if change != nil {
		change(policy)
	}
	return policy
}

func (w *world) mustCreateGrantPolicy(change func(*quotav1alpha1.GrantCreationPolicy)) *quotav1alpha1.GrantCreationPolicy {
	w.Helper()
	policy := w.grantPolicy(change)
	w.mustCreate(policy)
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	return policy
}

func (w *world) tierMap(name, tier string) *corev1.ConfigMap {
	object := w.configMap(name)
	object.Data = map[string]string{"tier": tier}
	return object
}

// wantGrant waits until a grant of the world exists and check finds nothing wrong with it.
func (w *world) wantGrant(name string, check func(*quotav1alpha1.ResourceGrant) error) *quotav1alpha1.ResourceGrant {
	w.Helper()
	grant := &quotav1alpha1.ResourceGrant{}
	eventually(w, func() error {
		if err := admin.Get(w.ctx, types.NamespacedName{Namespace: w.name, Name: name}, grant); err != nil {
			return err
		}
		if check == nil {
			return nil
		}
		return check(grant)
	})
	return grant
}

// wantNoGrant waits until a grant of the world no longer exists.
func (w *world) wantNoGrant(name string) {
	w.Helper()
	eventually(w, func() error {
		err := admin.Get(w.ctx, types.NamespacedName{Namespace: w.name, Name: name}, &quotav1alpha1.ResourceGrant{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("grant %s: got %v, want it to be gone", name, err)
	})
}

// wantPolicyEvent waits for an event with that text in its note on the world's policy.
func (w *world) wantPolicyEvent(policy client.Object, reason, text string) {
	w.Helper()
	eventually(w, func() error {
		var list eventsv1.EventList
		if err := admin.List(w.ctx, &list, client.MatchingFields{"reason": reason}); err != nil {
			return err
		}
		for i := range list.Items {
			e := &list.Items[i]
			if e.Namespace != metav1.NamespaceDefault && e.Regarding.Name == policy.GetName() && e.Regarding.Kind == "GrantCreationPolicy" && e.Reason == reason && strings.Contains(e.Note, text) {
				return nil
			}
		}
		return fmt.Errorf("no event %s on policy %s contains %q", reason, policy.GetName(), text)
	})
}

func amountOf(grant *quotav1alpha1.ResourceGrant) int64 {
	return grant.Spec.Allowances[0].Buckets[0].Amount
}

func wantAmount(amount int64) func(*quotav1alpha1.ResourceGrant) error {
	return func(grant *quotav1alpha1.ResourceGrant) error {
		if amountOf(grant) != amount {
			return fmt.Errorf("grant %s gives %d, want %d", grant.Name, amountOf(grant), amount)
		}
		return nil
	}
}

func (w *world) patch(object client.Object, patch string) {
	w.Helper()
	if err := admin.Patch(w.ctx, object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		w.Fatalf("patch %T %s: %v", object, object.GetName(), err)
	}
}

// TestGrantPolicyFollowsItsObjects walks one grant through its life.
func TestGrantPolicyFollowsItsObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	policy := w.mustCreateGrantPolicy(func(p *quotav1alpha1.GrantCreationPolicy) {
		p.Spec.Target.ResourceGrantTemplate.Metadata.Labels = map[string]string{"quota.miloapis.com/tier": "gold"}
		p.Spec.Target.ResourceGrantTemplate.Metadata.Annotations = map[string]string{"example.com/note": "{{.trigger.data.note | default \"none\"}}"}
	})
	object := w.tierMap("a", "gold")
	w.mustCreate(object)
	grant := w.wantGrant("for-a", nil)
	wantLabels := map[string]string{
		"quota.miloapis.com/auto-created": "true", "quota.miloapis.com/policy": policy.Name, "quota.miloapis.com/source": policy.Name,
		"quota.miloapis.com/policy-uid": string(policy.UID), "quota.miloapis.com/tier": "gold",
	}
	if !maps.Equal(grant.Labels, wantLabels) {
		t.Errorf("labels: got %v, want %v", grant.Labels, wantLabels)
	}
	for key, want := range map[string]string{
		"quota.miloapis.com/created-by": "grant-creation-controller", "quota.miloapis.com/resource-name": "a",
		"quota.miloapis.com/resource-uid": string(object.UID), "example.com/note": "none",
	} {
		if grant.Annotations[key] != want {
			t.Errorf("annotation %s: got %q, want %q", key, grant.Annotations[key], want)
		}
	}
	if len(grant.OwnerReferences) != 1 || grant.OwnerReferences[0].UID != object.UID {
		t.Errorf("owners: got %v, want the ConfigMap", grant.OwnerReferences)
	}
	w.wantBucket(5, 0, 5, 0)
	w.wantPolicyEvent(policy, "GrantCreated", "ResourceGrant "+w.name+"/for-a for Organization")

	t.Log("the object changes")
	w.patch(object, `{"data":{"note":"new"}}`)
	w.wantGrant("for-a", func(g *quotav1alpha1.ResourceGrant) error {
		if g.Annotations["example.com/note"] != "new" {
			return fmt.Errorf("annotations: got %v", g.Annotations)
		}
		return nil
	})
	t.Log("the policy changes")
	w.patch(policy, `{"spec":{"target":{"resourceGrantTemplate":{"metadata":{"labels":null},"spec":{"allowances":[{"resourceType":"`+
		w.resourceType()+`","buckets":[{"amount":7}]}]}}}}}`)
	grant = w.wantGrant("for-a", wantAmount(7))
	if _, stays := grant.Labels["quota.miloapis.com/tier"]; stays {
		t.Errorf("labels: got %v, want none that the template has dropped", grant.Labels)
	}
	w.wantBucket(7, 0, 7, 0)
	w.wantPolicyEvent(policy, "GrantUpdated", "for-a")

	t.Log("somebody changes and deletes the grant by hand")
	w.patch(grant, `{"metadata":{"labels":{"team":"x","quota.miloapis.com/source":"me"}},"spec":{"allowances":[{"resourceType":"`+
		w.resourceType()+`","buckets":[{"amount":1000}]}]}}`)
	grant = w.wantGrant("for-a", wantAmount(7))
	if grant.Labels["team"] != "x" || grant.Labels["quota.miloapis.com/source"] != policy.Name {
		t.Errorf("labels: got %v, want those of others kept, and the policy's put right", grant.Labels)
	}
	first := grant.UID
	w.mustDelete(grant)
	w.wantGrant("for-a", func(g *quotav1alpha1.ResourceGrant) error {
		if g.UID == first {
			return fmt.Errorf("the grant is still there")
		}
		return nil
	})

	t.Log("the object meets the conditions no more, and again")
	w.patch(object, `{"data":{"tier":"silver"}}`)
	w.wantNoGrant("for-a")
	w.wantBucket(0, 0, 0, 0)
	w.wantPolicyEvent(policy, "GrantDeleted", "for-a")
	w.patch(object, `{"data":{"tier":"gold"}}`)
	w.wantGrant("for-a", wantAmount(7))

	t.Log("the name changes")
	w.patch(policy, `{"spec":{"target":{"resourceGrantTemplate":{"metadata":{"name":"of-{{.trigger.metadata.name}}"}}}}}`)
	w.wantGrant("of-a", nil)
	w.wantNoGrant("for-a")

	t.Log("the policy is paused: its grants stay, and none are made or changed")
	kept := w.wantGrant("of-a", nil).UID
	w.patch(policy, `{"spec":{"enabled":false}}`)
	if c := w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionFalse); c.Reason != quotav1alpha1.ReasonPolicyDisabled {
		t.Errorf("the reason is %s, want PolicyDisabled", c.Reason)
	}
	// The grants of another policy prove what the controller has seen of the objects.
	w.mustCreateGrantPolicy(func(p *quotav1alpha1.GrantCreationPolicy) {
		p.Name += "-seen"
		p.Spec.Target.ResourceGrantTemplate.Metadata.Name = "seen-{{.trigger.metadata.name}}"
	})
	w.wantGrant("seen-a", nil)
	w.patch(policy, `{"spec":{"target":{"resourceGrantTemplate":{"spec":{"allowances":[{"resourceType":"`+w.resourceType()+`","buckets":[{"amount":9}]}]}}}}}`)
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionFalse)
	w.patch(object, `{"data":{"tier":"silver"}}`)
	w.mustCreate(w.tierMap("later", "gold"))
	w.wantNoGrant("seen-a")
	w.wantGrant("of-a", wantAmount(7))
	w.patch(object, `{"data":{"tier":"gold"}}`)
	w.wantGrant("seen-a", nil)

	t.Log("it goes on, with what changed meanwhile")
	w.patch(policy, `{"spec":{"enabled":true}}`)
	w.wantGrant("of-a", wantAmount(9))
	w.wantGrant("of-later", wantAmount(9))
	if now := w.wantGrant("of-a", nil).UID; now != kept {
		t.Errorf("the grant was deleted and made again: its UID is %s, was %s", now, kept)
	}

	t.Log("the policy is deleted while it is paused, with a warning")
	w.patch(policy, `{"spec":{"enabled":false}}`)
	want := "2 grants of this policy are deleted with it, and their consumers lose the quota; " +
		"to keep the grants, disable the policy by spec.enabled instead"
	eventually(w, func() error { // the watch shows a new grant a moment later
		if got := w.deleteListening(policy, client.DryRunAll); got != want {
			return fmt.Errorf("got the warnings %q, want %q", got, want)
		}
		return nil
	})
	if got := w.deleteListening(policy); got != want {
		t.Errorf("got the warnings %q, want %q", got, want)
	}
	w.wantNoGrant("of-a")
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(policy), policy); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %v, want the policy to be gone; its finalizers are %v", err, policy.Finalizers)
		}
		return nil
	})
}

// TestGrantPolicyBeforeItsKind creates a policy for a kind, and a resource type, before their definition. The objects
// are cluster-scoped, and the policy leaves the grant's name to Bursar.
func TestGrantPolicyBeforeItsKind(t *testing.T) {
	t.Parallel()
	const group, kind = "lategrant.example.com", "Account"
	w := &world{T: t, ctx: t.Context(), name: "late-grant"}
	w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
	var heard warnings
	config := rest.CopyConfig(started.Config)
	config.WarningHandler = &heard
	api, err := client.New(config, client.Options{Scheme: admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	policy := w.grantPolicy(func(p *quotav1alpha1.GrantCreationPolicy) {
		p.Spec.Trigger.Resource = quotav1alpha1.GrantTriggerResource{APIVersion: group + "/v1", Kind: kind}
		p.Spec.Trigger.Conditions = nil
		p.Spec.Target.ResourceGrantTemplate.Metadata = quotav1alpha1.ObjectTemplateMetadata{GenerateName: "acc-", Namespace: w.name}
	})
	if err := api.Create(w.ctx, policy); err != nil {
		t.Fatal(err)
	}
	w.cleanUp(policy)
	for _, want := range []string{"kind Account.lategrant.example.com in version lategrant.example.com/v1 is not served", "has no active ResourceRegistration"} {
		if !strings.Contains(heard.String(), want) {
			t.Errorf("warnings: got %q, want %q", heard.String(), want)
		}
		if c := w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionFalse); c.Reason != quotav1alpha1.ReasonValidationFailed || !strings.Contains(c.Message, want) {
			t.Errorf("condition: got %s %q, want ValidationFailed %q", c.Reason, c.Message, want)
		}
	}
	w.mustCreate(platform.Definition(group, kind, "accounts"))
	w.mustCreate(w.registration(w.resourceType()))
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	account := &unstructured.Unstructured{}
	account.SetAPIVersion(group + "/v1")
	account.SetKind(kind)
	account.SetName("one")
	w.mustCreate(account)
	var names []string
	found := func() error {
		var list quotav1alpha1.ResourceGrantList
		if err := admin.List(w.ctx, &list, client.InNamespace(w.name), client.MatchingLabels{quotav1alpha1.LabelSource: policy.Name}); err != nil {
			return err
		}
		if len(list.Items) != 1 || !strings.HasPrefix(list.Items[0].Name, "acc-") || len(list.Items[0].Name) == len("acc-") {
			return fmt.Errorf("grants: got %+v, want one whose name is completed", list.Items)
		}
		if o := list.Items[0].OwnerReferences; len(o) != 1 || o[0].UID != account.GetUID() {
			return fmt.Errorf("owners: got %v, want the Account", o)
		}
		names = append(names, list.Items[0].Name)
		return nil
	}
	eventually(w, found)
	w.wantBucket(5, 0, 5, 0)
	w.mustDelete(&quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: names[0]}})
	eventually(w, found)
	if names[len(names)-1] != names[0] {
		t.Errorf("the grant is now called %s, want %s as before", names[len(names)-1], names[0])
	}
	w.mustDelete(account)
	w.wantNoGrant(names[0])
}

// TestGrantGoesWithItsObject deletes objects with grants in the same namespace and elsewhere. Only the former have the
// object as their owner.
func TestGrantGoesWithItsObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	elsewhere := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-elsewhere"}}
	w.mustCreate(elsewhere)
	w.mustCreateGrantPolicy(func(p *quotav1alpha1.GrantCreationPolicy) {
		p.Spec.Target.ResourceGrantTemplate.Metadata.Namespace = `{{.trigger.data.where | default .trigger.metadata.namespace}}`
	})
	near, far := w.tierMap("near", "gold"), w.tierMap("far", "gold")
	far.Data["where"] = elsewhere.Name
	w.mustCreate(near)
	w.mustCreate(far)
	if owners := w.wantGrant("for-near", nil).OwnerReferences; len(owners) != 1 {
		t.Errorf("the grant beside its object has the owners %v, want the object", owners)
	}
	there := &quotav1alpha1.ResourceGrant{}
	get := func() error {
		return admin.Get(w.ctx, types.NamespacedName{Namespace: elsewhere.Name, Name: "for-far"}, there)
	}
	eventually(w, get)
	if len(there.OwnerReferences) != 0 {
		t.Errorf("the grant elsewhere has the owners %v, want none", there.OwnerReferences)
	}
	w.mustDelete(near)
	w.mustDelete(far)
	w.wantNoGrant("for-near")
	eventually(w, func() error {
		if err := get(); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %v, want the grant elsewhere to be gone", err)
		}
		return nil
	})
	t.Log("an object of the same name has its grant at once")
	w.mustCreate(w.tierMap("near", "gold"))
	w.wantGrant("for-near", wantAmount(5))
	if err := admin.Delete(w.ctx, w.configMap("near"), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	again := w.tierMap("near", "gold")
	await.NoError(w, removal, func() error { return admin.Create(w.ctx, again) })
	w.wantGrant("for-near", func(g *quotav1alpha1.ResourceGrant) error {
		if g.Annotations[quotav1alpha1.AnnotationResourceUID] != string(again.UID) {
			return fmt.Errorf("the grant is still that of the former object")
		}
		return nil
	})
}

// TestGrantGoesBeforeItsObject deletes an object in the foreground, and a dependent stays for long. The object's grant
// goes, and does not come and go again and again.
func TestGrantGoesBeforeItsObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustCreateGrantPolicy(nil)
	owner := w.tierMap("owner", "gold")
	w.mustCreate(owner)
	first := w.wantGrant("for-owner", nil)
	owned := w.configMap("owned")
	owned.Data = map[string]string{"tier": "none"}
	owned.Finalizers = []string{"example.com/hold"}
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: new(true)}}
	w.mustCreate(owned)
	t.Cleanup(func() {
		_ = admin.Patch(context.Background(), w.configMap("owned"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	if err := admin.Delete(w.ctx, owner, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	w.wantNoGrant("for-owner")
	for i := range 5 {
		w.mustCreate(w.tierMap(fmt.Sprint("other-", i), "gold"))
		w.wantGrant(fmt.Sprint("for-other-", i), nil)
		again := &quotav1alpha1.ResourceGrant{}
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(first), again); !apierrors.IsNotFound(err) {
			t.Fatalf("got %v, want the grant to stay away until its object is gone", err)
		}
	}
	w.patch(owned, `{"metadata":{"finalizers":null}}`)
	w.waitRemoved(owner)
}

// TestGrantNameTaken has a person's grant in the way of a policy's.
func TestGrantNameTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	theirs := w.grant("for-a", 1)
	policy := w.mustCreateGrantPolicy(nil)
	w.mustCreate(w.tierMap("a", "gold"))
	w.mustCreate(w.tierMap("b", "gold"))
	w.wantGrant("for-b", nil)
	w.wantPolicyEvent(policy, "GrantFailed", "create ResourceGrant "+w.name+"/for-a: a grant of that name exists, and Bursar did not make it for this object")
	if g := w.wantGrant("for-a", wantAmount(1)); g.UID != theirs.UID || len(g.Labels) > 0 {
		t.Errorf("got %+v, want the person's grant as it was", g)
	}
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	w.mustDelete(theirs)
	w.wantGrant("for-a", wantAmount(5))
}

// TestGrantPolicyFailsForOneObject has an object without a field of a condition.
func TestGrantPolicyFailsForOneObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	policy := w.mustCreateGrantPolicy(nil)
	broken := w.tierMap("broken", "gold")
	w.mustCreate(broken)
	w.wantGrant("for-broken", nil)
	w.patch(broken, `{"data":{"tier":null,"other":"x"}}`)
	w.wantPolicyEvent(policy, "EvaluationFailed", "ConfigMap "+w.name+"/broken gets no grant, or keeps its existing one: evaluate spec.trigger.conditions[1].expression")
	w.mustCreate(w.tierMap("fine", "gold"))
	w.wantGrant("for-fine", nil)
	w.wantGrant("for-broken", wantAmount(5))
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	w.patch(broken, `{"data":{"tier":"silver"}}`)
	w.wantNoGrant("for-broken")
	w.wantGrant("for-fine", nil)
}

// TestGrantNamespaceMissing creates the grant's namespace only after the object.
func TestGrantNamespaceMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	later := w.name + "-later"
	policy := w.mustCreateGrantPolicy(func(p *quotav1alpha1.GrantCreationPolicy) {
		p.Spec.Target.ResourceGrantTemplate.Metadata.Namespace = later
	})
	w.mustCreate(w.tierMap("a", "gold"))
	w.wantPolicyEvent(policy, "GrantFailed", "namespace "+later+" does not exist; create it, and the grant will follow")
	w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: later}})
	await.NoError(w, 2*soon, func() error {
		return admin.Get(w.ctx, types.NamespacedName{Namespace: later, Name: "for-a"}, &quotav1alpha1.ResourceGrant{})
	})
}

// TestGrantConsumerOfAnotherKind renders a consumer outside the resource type's consumer type.
func TestGrantConsumerOfAnotherKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	policy := w.mustCreateGrantPolicy(func(p *quotav1alpha1.GrantCreationPolicy) {
		p.Spec.Target.ResourceGrantTemplate.Spec.ConsumerRef.Kind = `{{.trigger.data.kind}}`
	})
	right, wrong := w.tierMap("right", "gold"), w.tierMap("wrong", "gold")
	right.Data["kind"], wrong.Data["kind"] = platform.Kind, "Team"
	w.mustCreate(right)
	w.mustCreate(wrong)
	w.wantGrant("for-right", nil)
	w.wantPolicyEvent(policy, "EvaluationFailed", "is granted to Organization.platform.example.com, not to Team.platform.example.com")
	w.wantNoGrant("for-wrong")
}

// TestGrantMarksCannotBeForged has a user with the right to create grants dress them up as a policy's.
func TestGrantMarksCannotBeForged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustCreate(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "grants", Namespace: w.name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{quotav1alpha1.GroupName}, Resources: []string{"resourcegrants"}, Verbs: []string{"create", "update", "delete"},
	}}})
	w.mustCreate(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "grants", Namespace: w.name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "grants"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "mallory"}},
	})
	config := rest.CopyConfig(started.Config)
	config.Impersonate.UserName = "mallory"
	api, err := client.New(config, client.Options{Scheme: admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	grant := func(name string, labels map[string]string) *quotav1alpha1.ResourceGrant {
		g := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.name, Labels: labels}}
		g.Spec = w.grantPolicy(nil).Spec.Target.ResourceGrantTemplate.Spec
		return g
	}
	own := grant("own", map[string]string{quotav1alpha1.LabelSource: "manual", "quota.miloapis.com/tier": "gold"})
	eventually(w, func() error { return api.Create(context.Background(), own) }) // RBAC takes a moment
	w.cleanUp(own)
	err = api.Create(w.ctx, grant("forged", map[string]string{quotav1alpha1.LabelAutoCreated: "true", quotav1alpha1.LabelPolicyUID: "x"}))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "policy-uid") {
		t.Errorf("got %v, want a refusal that names the label", err)
	}
}

// TestGrantPolicyThatCannotWork expects the rejection of each policy at its write.
func TestGrantPolicyThatCannotWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := map[string]struct {
		reason string
		change func(*quotav1alpha1.GrantCreationPolicy)
		want   string
	}{
		"template": {"with the position", func(p *quotav1alpha1.GrantCreationPolicy) {
			p.Spec.Target.ResourceGrantTemplate.Metadata.Name = "x{{.trigger.metadata.name | nothing}}"
		}, `spec.target.resourceGrantTemplate.metadata.name: Invalid value: "x{{.trigger.metadata.name | nothing}}": 1:29: there is no function nothing`},
		"name expression": {"with the position", func(p *quotav1alpha1.GrantCreationPolicy) {
			p.Spec.Target.ParentContext = &quotav1alpha1.ParentContext{APIGroup: "a.b", Kind: "C", NameExpression: "object.spec.parent =="}
		}, `spec.target.parentContext.nameExpression: Invalid value: "object.spec.parent ==": 1:22: Syntax error`},
		"own kind": {"grants for grants would never end", func(p *quotav1alpha1.GrantCreationPolicy) {
			p.Spec.Trigger.Resource = quotav1alpha1.GrantTriggerResource{APIVersion: "quota.miloapis.com/v1alpha1", Kind: "ResourceGrant"}
		}, "spec.trigger.resource"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := admin.Create(w.ctx, w.grantPolicy(tt.change), client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v, want it to contain %s", tt.reason, err, tt.want)
			}
		})
	}
}

// A policy reports the grants it fails to make, and does not count them.
func TestGrantPolicyThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustCreate(w.tierMap("a", "gold"))
	policy := w.mustCreateGrantPolicy(func(p *quotav1alpha1.GrantCreationPolicy) {
		p.Spec.Target.ResourceGrantTemplate.Metadata.Namespace = w.name + "-nowhere"
	})
	want := func(grants int64, isFailing bool) {
		t.Helper()
		await.NoError(w, 2*soon, func() error { // the time between two attempts grows
			if err := admin.Get(w.ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
				return err
			}
			ready := apimeta.FindStatusCondition(policy.Status.Conditions, quotav1alpha1.ConditionReady)
			if ready == nil || policy.Status.Grants != grants || strings.Contains(ready.Message, "; 1 fail to get one: ") != isFailing {
				return fmt.Errorf("%d grants, condition %+v", policy.Status.Grants, ready)
			}
			return nil
		})
	}
	want(0, true)
	w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-nowhere"}})
	want(1, false)
}
