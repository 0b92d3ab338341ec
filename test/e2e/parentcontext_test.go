package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/process"
)

const projectsType = "platform.example.com/projects"

// teamMap is an object for which a policy makes a grant, in the control plane of the Organization that it names.
func teamMap(name, organization string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"team": "yes"}},
		Data:       map[string]string{"organization": organization},
	}
}

// teamGrantPolicy makes a grant of 5 for each teamMap.
func teamGrantPolicy(name string) *quotav1alpha1.GrantCreationPolicy {
	return &quotav1alpha1.GrantCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: quotav1alpha1.GrantCreationPolicySpec{
			Trigger: quotav1alpha1.GrantTrigger{
				Resource:   quotav1alpha1.GrantTriggerResource{APIVersion: "v1", Kind: "ConfigMap"},
				Conditions: []quotav1alpha1.ConditionExpression{{Expression: `object.metadata.?labels.team.orValue("") == "yes"`}},
			},
			Target: quotav1alpha1.GrantTarget{
				ParentContext: &quotav1alpha1.ParentContext{APIGroup: platform.Group, Kind: platform.Kind, NameExpression: "object.data.organization"},
				ResourceGrantTemplate: quotav1alpha1.ResourceGrantTemplate{
					Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: "{{.trigger.metadata.name}}"},
					Spec: quotav1alpha1.ResourceGrantSpec{
						ConsumerRef: platform.Consumer("{{.trigger.data.organization}}"),
						Allowances:  []quotav1alpha1.Allowance{{ResourceType: projectsType, Buckets: []quotav1alpha1.Bucket{{Amount: 5}}}},
					},
				},
			},
		},
	}
}

func (s *controlPlane) patch(object client.Object, patch string) {
	s.Helper()
	if err := s.Patch(s.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		s.Fatalf("patch %T %s: %v", object, object.GetName(), err)
	}
}

// madeFor has a policy make grants only in the control plane of one Organization.
func madeFor(policy *quotav1alpha1.GrantCreationPolicy, organization string) *quotav1alpha1.GrantCreationPolicy {
	policy.Spec.Trigger.Conditions = append(policy.Spec.Trigger.Conditions,
		quotav1alpha1.ConditionExpression{Expression: fmt.Sprintf("object.data.organization == %q", organization)})
	return policy
}

// TestTwoControlPlanes makes grants in a parent, beside a control plane without answers, and one with answers only to
// lists.
func TestTwoControlPlanes(t *testing.T) {
	t.Parallel()
	takeServers(t, 2)
	parentDir, parentAddress := t.TempDir(), process.FreeAddress(t)
	parent := startServer(t, parentDir, parentAddress)
	child := startServer(t, t.TempDir(), "127.0.0.1:0")
	if err := platform.Install(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	parent.mustCreate(&quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "projects"},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: projectsType, Type: quotav1alpha1.RegistrationTypeEntity, ConsumerTypeRef: platform.ConsumerType(),
			BaseUnit: "project", DisplayUnit: "project", UnitConversionFactor: 1,
			ClaimingResources: []quotav1alpha1.ClaimingResource{{APIGroup: platform.Group, Kind: "Project"}},
		},
	})
	silence, stall := startMute(t, false, 1), startMute(t, true, 2)
	silent, policy := madeFor(teamGrantPolicy("silent"), "silent"), madeFor(teamGrantPolicy("teams"), "acme")
	child.mustCreate(controlPlaneSecret("silent", silence.kubeconfig(t)), controlPlaneSecret("stalled", stall.kubeconfig(t)))
	child.mustCreate(silent, madeFor(teamGrantPolicy("stalled"), "stalled"), teamMap("lost", "silent"))
	for n := range 10 { // more than the controller handles at a time
		child.mustCreate(teamMap(fmt.Sprint("stalled-", n), "stalled"))
	}

	t.Log("a control plane that nobody has registered")
	child.mustCreate(policy, teamMap("a", "acme"))
	child.wantCondition(policy, quotav1alpha1.ConditionReady, yes, quotav1alpha1.ReasonPolicyReady)
	message := child.wantCondition(policy, quotav1alpha1.ConditionParentContextReady, no, quotav1alpha1.ReasonControlPlaneNotRegistered)
	if !strings.Contains(message, "control plane Organization.platform.example.com acme") || !strings.Contains(message, "quota.miloapis.com/control-plane-name") {
		t.Errorf("the message %q does not say what to do", message)
	}
	eventually(t, func() error {
		ready := child.wantCondition(policy, quotav1alpha1.ConditionReady, yes, quotav1alpha1.ReasonPolicyReady)
		if policy.Status.Grants != 0 || !strings.Contains(ready, "1 of them wait for their control plane") {
			return fmt.Errorf("the condition Ready says %q, with %d grants", ready, policy.Status.Grants)
		}
		return nil
	})
	if note := child.wantEvent(policy.Name, quotav1alpha1.EventParentContextNotReady); note != message {
		t.Errorf("the event says %q, want %q", note, message)
	}

	t.Log("a tenant's Secret registers nothing, and one that would run a program is refused")
	tenants := controlPlaneSecret("acme", parent.kubeconfig)
	tenants.Namespace = "default"
	child.mustCreate(tenants)
	secret := controlPlaneSecret("acme", []byte(strings.Replace(string(parent.kubeconfig), "users:\n- name: admin\n  user:",
		"users:\n- name: admin\n  user:\n    exec: {apiVersion: client.authentication.k8s.io/v1, command: evil, interactiveMode: Never}\n   ", 1)))
	child.mustCreate(secret)
	message = child.wantCondition(policy, quotav1alpha1.ConditionParentContextReady, no, quotav1alpha1.ReasonControlPlaneInvalid)
	if !strings.Contains(message, `the program "evil"`) {
		t.Errorf("the message %q does not name the program", message)
	}
	child.wantMetric("bursar_control_planes", "invalid", 1)

	t.Log("it is registered, and the grant counts there")
	secret.Data["kubeconfig"] = parent.kubeconfig
	if err := child.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	grant := parent.wantGrants("teams", 5, "a")["a"]
	if len(grant.OwnerReferences) > 0 || grant.Namespace != "default" || grant.Labels[quotav1alpha1.LabelPolicyUID] != string(policy.UID) {
		t.Errorf("got %+v, want a grant in namespace default with the policy's UID and without owners", grant.ObjectMeta)
	}
	child.wantCondition(policy, quotav1alpha1.ConditionParentContextReady, yes, quotav1alpha1.ReasonParentContextReady)
	child.wantGrants("teams", 5)
	eventually(t, func() error {
		var buckets quotav1alpha1.AllowanceBucketList
		if err := parent.List(t.Context(), &buckets); err != nil {
			return err
		}
		if len(buckets.Items) != 1 || buckets.Items[0].Status.Limit != 5 {
			return fmt.Errorf("buckets: got %+v, want one with limit 5", buckets.Items)
		}
		return nil
	})

	t.Log("the silent one is told of, and holds up nobody")
	message = child.wantCondition(silent, quotav1alpha1.ConditionParentContextReady, no, quotav1alpha1.ReasonControlPlaneUnreachable)
	if !strings.Contains(message, "Organization.platform.example.com silent (Secret plane-silent): it does not answer") {
		t.Errorf("the message %q does not say which control plane does not answer", message)
	}
	child.wantMetric("bursar_control_planes", "answers", 2)
	child.wantMetric("bursar_control_planes", "unreachable", 1)
	wantNotHeldUp(t, child, parent, silence, stall)

	t.Log("what is changed or deleted there by hand is put right")
	parent.patch(&grant, `{"spec":{"allowances":[{"resourceType":"`+projectsType+`","buckets":[{"amount":99}]}]}}`)
	b := parent.wantGrants("teams", 5, "a", "b")["b"]
	parent.mustDelete(&b)
	eventually(t, func() error {
		grants, err := parent.grants("teams")
		if err == nil && (grants["b"].UID == "" || grants["b"].UID == b.UID) {
			err = fmt.Errorf("grant b has not been made again")
		}
		return err
	})
	child.wantMetric("bursar_grant_policy_evaluations_total", "grant", 2)
	child.wantMetric("bursar_grant_policy_writes_total", "created", 3)
	child.wantMetric("bursar_grant_policy_writes_total", "updated", 1)

	t.Log("the parent is away while an object goes and another one comes")
	parent.stop()
	child.wantCondition(policy, quotav1alpha1.ConditionParentContextReady, no, quotav1alpha1.ReasonControlPlaneUnreachable)
	child.mustDelete(teamMap("a", ""))
	child.mustCreate(teamMap("c", "acme"))
	parent = startServer(t, parentDir, parentAddress)
	parent.wantGrants("teams", 5, "b", "c")
	child.wantCondition(policy, quotav1alpha1.ConditionParentContextReady, yes, quotav1alpha1.ReasonParentContextReady)

	t.Log("an object moves to another control plane, here by the name that Cluster API gives it")
	child.patch(policy, `{"spec":{"target":{"parentContext":{"apiGroup":"cluster.x-k8s.io","kind":"Cluster","nameExpression":"'west'"}}}}`)
	child.wantCondition(policy, quotav1alpha1.ConditionParentContextReady, no, quotav1alpha1.ReasonControlPlaneNotRegistered)
	parent.wantGrants("teams", 5)
	child.mustCreate(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: config.DefaultSystemNamespace, Name: "west-kubeconfig", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "west"}},
		Data:       map[string][]byte{"value": parent.kubeconfig},
	})
	moved := parent.wantGrants("teams", 5, "b", "c")

	t.Log("both names reach the same server, and neither takes away what was made by way of the other")
	child.mustCreate(controlPlaneSecret("again", parent.kubeconfig), controlPlaneSecret("itself", child.kubeconfig))
	child.wantMetric("bursar_control_planes", "answers", 5)
	for range 3 { // noticing takes a list, and the controller lists all equally often
		grant = moved["b"]
		parent.patch(&grant, `{"spec":{"allowances":[{"resourceType":"`+projectsType+`","buckets":[{"amount":99}]}]}}`)
		parent.wantGrants("teams", 5, "b", "c")
	}
	for name, grant := range parent.wantGrants("teams", 5, "b", "c") {
		if grant.UID != moved[name].UID || grant.Annotations[quotav1alpha1.AnnotationParentContext] != "Cluster.cluster.x-k8s.io/west" {
			t.Errorf("grant %s was made again, or by way of %q", name, grant.Annotations[quotav1alpha1.AnnotationParentContext])
		}
	}

	t.Log("a policy that is disabled, and has no grants any more, has nothing to wait for")
	idle := madeFor(teamGrantPolicy("idle"), "again")
	child.mustCreate(idle, teamMap("idle", "again"))
	parent.wantGrants("idle", 5, "idle")
	child.mustDelete(teamMap("idle", "again"))
	parent.wantGrants("idle", 5)
	child.patch(idle, `{"spec":{"enabled":false}}`)
	eventually(t, func() error {
		err := child.Get(t.Context(), client.ObjectKeyFromObject(idle), idle)
		if err == nil && len(idle.Finalizers) > 0 {
			err = fmt.Errorf("the policy still has the finalizers %v", idle.Finalizers)
		}
		return err
	})

	t.Log("the policy goes, and its grants with it; it never made any in the silent one")
	child.mustDelete(policy)
	parent.wantGrants("teams", 5)
	child.wantGone(policy)
}

// wantNotHeldUp checks for a new grant in the parent while requests to the others hang. It waits until each of the
// others holds its maximum of concurrent requests, and creates the object. The grant must appear before any of these
// requests ends. Requests near their end prove nothing, so there are a few rounds. If grants wait for requests, no
// round succeeds. The last grant is called b, and all before it are gone again.
func wantNotHeldUp(t *testing.T, child, parent *controlPlane, others ...*mute) {
	t.Helper()
	const rounds = 5
	for range rounds {
		held := make([][]int, len(others))
		for i, other := range others {
			eventually(t, func() error {
				if held[i] = other.held(); len(held[i]) < other.most {
					return fmt.Errorf("control plane %d of the others was asked %d things and answered none, want %d", i, len(held[i]), other.most)
				}
				return nil
			})
		}
		child.mustCreate(teamMap("b", "acme"))
		parent.wantGrants("teams", 5, "a", "b")
		before := true
		for i, other := range others {
			before = before && other.holds(held[i])
		}
		if before {
			return
		}
		child.mustDelete(teamMap("b", ""))
		parent.wantGrants("teams", 5, "a")
	}
	t.Fatalf("in each of %d rounds a grant appeared only after a request to another control plane had ended", rounds)
}

// TestControlPlaneGoesAway deletes a policy while the control plane with its grants is away.
func TestControlPlaneGoesAway(t *testing.T) {
	t.Parallel()
	takeServers(t, 2)
	parentDir, parentAddress := t.TempDir(), process.FreeAddress(t)
	parent := startServer(t, parentDir, parentAddress)
	childDir := t.TempDir()
	child := startServer(t, childDir, "127.0.0.1:0")
	policies := map[string]*quotav1alpha1.GrantCreationPolicy{}
	child.mustCreate(controlPlaneSecret("acme", parent.kubeconfig), teamMap("a", "acme"))
	for _, name := range []string{"first", "second"} {
		policies[name] = teamGrantPolicy(name)
		policies[name].Spec.Target.ResourceGrantTemplate.Metadata.Name = ""
		child.mustCreate(policies[name])
	}
	for name := range policies {
		eventually(t, func() error {
			grants, err := parent.grants(name)
			if err == nil && len(grants) != 1 {
				err = fmt.Errorf("policy %s has the grants %v, want one", name, grants)
			}
			return err
		})
	}

	t.Log("the parent is away, and the child has forgotten what it knew of it")
	parent.stop()
	child.stop()
	child = startServer(t, childDir, "127.0.0.1:0")
	child.mustDelete(policies["first"])
	note := child.wantEvent("first", "GrantsNotCleanedUp")
	if !strings.Contains(note, "Organization.platform.example.com acme") || !strings.Contains(note, "delete Secret bursar-system/plane-acme") {
		t.Errorf("the event %q does not say which control plane, and what to do", note)
	}

	t.Log("it comes back, and the policy goes")
	parent = startServer(t, parentDir, parentAddress)
	parent.wantGrants("first", 5)
	child.wantGone(policies["first"])

	t.Log("nobody registers it any more, and the other policy goes without its grants")
	child.mustDelete(controlPlaneSecret("acme", nil))
	child.wantCondition(policies["second"], quotav1alpha1.ConditionParentContextReady, no, quotav1alpha1.ReasonControlPlaneNotRegistered)
	child.mustDelete(policies["second"])
	child.wantGone(policies["second"])
	child.wantEvent("second", "GrantsLeftBehind")
	if grants, err := parent.grants("second"); err != nil || len(grants) != 1 {
		t.Errorf("got %v, %v, want the grant to be there still", grants, err)
	}
}

// wantGone waits until a policy no longer exists.
func (s *controlPlane) wantGone(policy *quotav1alpha1.GrantCreationPolicy) {
	s.Helper()
	eventually(s, func() error {
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(policy), policy); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %v, want the policy to be gone; its finalizers are %v", err, policy.Finalizers)
		}
		return nil
	})
}
