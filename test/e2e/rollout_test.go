package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// adminWithWarnings returns the client of an administrator, and the API server's warnings to it.
func adminWithWarnings(t *testing.T, change func(*rest.Config)) (client.Client, *warnings) {
	t.Helper()
	told := &warnings{}
	config := rest.CopyConfig(started.Config)
	config.WarningHandler = told
	if change != nil {
		change(config)
	}
	api, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	must(t, err)
	return api, told
}

// as makes the requests those of a user with all permissions, and with these groups as well.
func as(user string, groups ...string) func(*rest.Config) {
	return func(c *rest.Config) {
		c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append([]string{"system:masters"}, groups...)}
	}
}

func inMode(mode quotav1alpha1.EnforcementMode) func(*quotav1alpha1.ClaimCreationPolicy) {
	return func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.EnforcementMode = mode }
}

// wantEvent waits for an event on a policy about an object of the world, with all of the parts in its text.
func (w *world) wantEvent(policy *quotav1alpha1.ClaimCreationPolicy, kind, name, reason string, parts ...string) {
	w.Helper()
	about := kind + " " + w.name + "/" + name
	w.wantEventWhere(reason, append(parts, about), func(e *eventsv1.Event) bool {
		return e.Regarding.Kind == "ClaimCreationPolicy" && e.Regarding.UID == policy.UID &&
			e.Related != nil && e.Related.Kind+" "+e.Related.Namespace+"/"+e.Related.Name == about
	})
}

// wantEventOn waits for an event on an object of the world.
func (w *world) wantEventOn(kind, name, reason string, parts ...string) {
	w.Helper()
	w.wantEventWhere(reason, parts, func(e *eventsv1.Event) bool {
		return e.Regarding.Kind == kind && e.Regarding.Name == name && e.Namespace == w.name
	})
}

func (w *world) wantEventWhere(reason string, parts []string, isMeant func(*eventsv1.Event) bool) {
	w.Helper()
	eventually(w, func() error {
		var list eventsv1.EventList
		if err := admin.List(w.ctx, &list, client.MatchingFields{"reason": reason}); err != nil {
			return err
		}
		for i := range list.Items {
			event := &list.Items[i]
			matches := isMeant(event) && event.Reason == reason
			for _, part := range parts {
				matches = matches && strings.Contains(event.Note, part)
			}
			if matches {
				return nil
			}
		}
		return fmt.Errorf("no event %s says %q, of %d events", reason, parts, len(list.Items))
	})
}

func TestWarnLetsPassWithAWarning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 1)
	w.policy(w.name, inMode(quotav1alpha1.EnforcementModeWarn))
	api, warnings := adminWithWarnings(t, nil)
	must(t, api.Create(w.ctx, w.configMap("a")))
	if text := warnings.String(); text != "" {
		t.Errorf("what fits is warned about: %s", text)
	}
	w.wantBucket(1, 1, 0, 1) // objects under Warn and Audit are charged once they exist
	must(t, api.Create(w.ctx, w.configMap("b"), client.DryRunAll))
	must(t, api.Create(w.ctx, w.configMap("b")))
	if text := warnings.String(); strings.Count(text, "exceeded quota: ConfigMap quota of Organization "+w.name) != 2 || !strings.Contains(text, "not enforced") {
		t.Errorf("the user is warned with %q, want it in the dry run and in the create", text)
	}
	w.wantBucket(1, 2, 0, 2)
	must(t, admin.Delete(w.ctx, w.configMap("b")))
	w.wantBucket(1, 1, 0, 1)
}

func TestAuditRecordsAndSaysNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 1)
	policy := w.policy(w.name, inMode(quotav1alpha1.EnforcementModeAudit))
	const counter = "bursar_admission_not_enforced_total"
	labels := map[string]string{"policy": w.name, "mode": "Audit"}
	before := counted(t, counter, labels)
	api, warnings := adminWithWarnings(t, as("jane"))
	for n, name := range []string{"a", "b", "c"} {
		must(t, api.Create(w.ctx, w.configMap(name)))
		w.wantBucket(1, int64(n+1), 0, int32(n+1)) // objects under Warn and Audit are charged once they exist
	}
	must(t, api.Create(w.ctx, w.configMap("d"), client.DryRunAll))
	if text := warnings.String(); text != "" {
		t.Errorf("the user is told: %s", text)
	}
	// The namespace does not show the quota, so its readers may not know the figures.
	for _, name := range []string{"b", "c"} {
		w.wantEvent(policy, "ConfigMap", name, "NotEnforced", "CREATE", "by jane", "exceeded quota: the quota of Organization "+w.name+" does not allow it")
	}
	w.wantBucket(1, 3, 0, 3)
	if got := counted(t, counter, labels) - before; got != 2 {
		t.Errorf("%v requests are counted, want b and c, and not the dry run", got)
	}
}

// A switch from a warning mode to an enforcing one needs no adoption.
func TestFromWarnToEnforce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 1)
	policy := w.policy(w.name, inMode(quotav1alpha1.EnforcementModeWarn))
	must(t, admin.Create(w.ctx, w.configMap("a")))
	w.update(policy, func() { policy.Spec.EnforcementMode = quotav1alpha1.EnforcementModeEnforce })
	w.waitCondition(policy, quotav1alpha1.ConditionReady, "True")
	w.wantExceeded(w.configMap("b"))
	w.wantBucket(1, 1, 0, 1)
}

// A policy failing for an object denies it only if it enforces.
func TestFaultyConditionInModeWarn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 5)
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.EnforcementMode = quotav1alpha1.EnforcementModeWarn
		p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: "trigger.data.size == 'large'"})
	})
	api, warnings := adminWithWarnings(t, nil)
	must(t, api.Create(w.ctx, w.configMap("a")))
	if text := warnings.String(); !strings.Contains(text, "cannot be applied to this object") || !strings.Contains(text, "no such key: data") {
		t.Errorf("the user is warned with %q, want the reason", text)
	}
}

// update changes an object in its stored form.
func (w *world) update(object client.Object, change func()) {
	w.Helper()
	must(w.T, w.tryUpdate(object, change))
}

func (w *world) tryUpdate(object client.Object, change func()) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change()
		return admin.Update(w.ctx, object)
	})
}

// wantAdopted waits until a policy has adopted so many objects.
func (w *world) wantAdopted(policy *quotav1alpha1.ClaimCreationPolicy, adopted, failed int64) *quotav1alpha1.AdoptionStatus {
	w.Helper()
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		a := policy.Status.Adoption
		if a == nil || a.State != quotav1alpha1.AdoptionComplete || a.ObservedGeneration != policy.Generation || a.Adopted != adopted || a.Failed != failed {
			return fmt.Errorf("adoption is %+v, want %d adopted and %d failed", a, adopted, failed)
		}
		return nil
	})
	return policy.Status.Adoption
}

func TestExistingObjectsAreAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 3)
	for i := range 5 {
		must(t, admin.Create(w.ctx, w.configMap(fmt.Sprint("old-", i))))
	}
	policy := w.policy(w.name, nil)
	adoption := w.wantAdopted(policy, 5, 0)
	if adoption.Processed < 5 || adoption.Total < 5 || adoption.CompletionTime == nil || adoption.StartTime == nil {
		t.Errorf("adoption is %+v, want it to tell what was processed, of how many, and when", adoption)
	}
	w.wantBucket(3, 5, 0, 5)
	w.wantExceeded(w.configMap("new"))
	// An adopted claim goes with its object, like any claim.
	for i := range 3 {
		must(t, admin.Delete(w.ctx, w.configMap(fmt.Sprint("old-", i))))
	}
	w.wantBucket(3, 2, 1, 2)
	w.mustCreate(w.configMap("new"))
	w.wantBucket(3, 3, 0, 3)
}

// The policy's status counts its failures in adoption, with a reason.
func TestAdoptionThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 3)
	good, bad := w.configMap("good"), w.configMap("bad")
	good.Data = map[string]string{"payer": w.name}
	must(t, admin.Create(w.ctx, good))
	must(t, admin.Create(w.ctx, bad))
	policy := w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = "{{.trigger.data.payer}}"
	})
	adoption := w.wantAdopted(policy, 1, 1)
	if !strings.HasPrefix(adoption.Message, "ConfigMap "+w.name+"/bad: ") || !strings.Contains(adoption.Message, "consumerRef.name") {
		t.Errorf("the reason is %q, want it to name the object and the field", adoption.Message)
	}
	w.wantBucket(3, 1, 2, 1)
}

// Only the create request names the creator.
func TestPolicyThatAsksWhoCreates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 3)
	must(t, admin.Create(w.ctx, w.configMap("old")))
	policy := w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: "user.name != 'nobody'"})
	})
	if adoption := w.wantAdopted(policy, 0, 0); !strings.Contains(adoption.Message, "user or requestInfo") {
		t.Errorf("the message is %q, want it to say why", adoption.Message)
	}
	must(t, admin.Create(w.ctx, w.configMap("new")))
	w.wantBucket(3, 1, 2, 1)
}

// A policy that only notes the creator counts no existing objects either, and its author learns how to count them.
func TestPolicyThatNotesWhoCreates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 3)
	must(t, admin.Create(w.ctx, w.configMap("old")))
	noting := func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Metadata.Annotations = map[string]string{"example.com/by": "{{index .user.groups 0}}"}
	}
	api, heard := listening(t)
	tried := w.newPolicy(w.name)
	noting(tried)
	must(t, api.Create(w.ctx, tried, client.DryRunAll))
	if got := heard.String(); !strings.Contains(got, "without these annotations all objects count") {
		t.Errorf("got the warnings %q, want the advice to leave the annotations out", got)
	}

	w.wantAdopted(w.policy(w.name, noting), 0, 0)
	must(t, admin.Create(w.ctx, w.configMap("new")))
	w.wantBucket(3, 1, 2, 1)
	if got := w.claimOf("new").Annotations["example.com/by"]; got != "system:masters" {
		t.Errorf("the claim says that it was asked for by %q, want system:masters", got)
	}
}

// A disabled policy enforces nothing, and the charges of its claims of record stay. What is created meanwhile stays
// free. A benchmark measures how soon enforcement stops.
func TestDisabledPolicy(t *testing.T) {
	t.Parallel()
	w := newClaimedWorld(t, 1)
	policy := &quotav1alpha1.ClaimCreationPolicy{}
	policy.Name = w.name
	must(t, admin.Create(w.ctx, w.configMap("a")))
	w.wantExceeded(w.configMap("b"))
	setEnabled := func(enabled bool) { w.update(policy, func() { policy.Spec.Enabled = &enabled }) }
	setEnabled(false)
	eventually(w, func() error { return admin.Create(w.ctx, w.configMap("b")) })
	condition := w.waitCondition(policy, quotav1alpha1.ConditionReady, "False")
	if condition.Reason != quotav1alpha1.ReasonPolicyDisabled {
		t.Errorf("the reason is %s", condition.Reason)
	}
	w.wantBucket(1, 1, 0, 1)
	must(t, admin.Delete(w.ctx, w.configMap("a")))
	w.wantBucket(1, 0, 1, 0)
	setEnabled(true)
	w.waitCondition(policy, quotav1alpha1.ConditionReady, "True")
	w.wantBucket(1, 0, 1, 0)
	w.mustCreate(w.configMap("c"))
	w.wantExceeded(w.configMap("d"))
}

// A deleted policy enforces nothing. Its claims stay with their objects, and people may now delete them by hand.
func TestDeletedPolicy(t *testing.T) {
	t.Parallel()
	w := newClaimedWorld(t, 2)
	policy := &quotav1alpha1.ClaimCreationPolicy{}
	policy.Name = w.name
	must(t, admin.Create(w.ctx, w.configMap("a")))
	must(t, admin.Create(w.ctx, w.configMap("b")))
	w.wantBucket(2, 2, 0, 2)
	w.mustDelete(policy)
	eventually(w, func() error { return admin.Create(w.ctx, w.configMap("c")) })
	w.wantBucket(2, 2, 0, 2)
	must(t, admin.Delete(w.ctx, w.configMap("a")))
	w.wantBucket(2, 1, 1, 1)
	for _, claim := range w.claims() {
		eventually(w, func() error { return client.IgnoreNotFound(admin.Delete(w.ctx, &claim)) })
	}
	w.wantBucket(2, 0, 2, 0)
	var left corev1.ConfigMap
	must(t, admin.Get(context.Background(), client.ObjectKeyFromObject(w.configMap("b")), &left))
}

// Administrators with the right to impersonate the group get past enforcement. Bursar charges and reports their
// objects. The counter is of the whole server, so the test runs alone: no other test breaks the glass meanwhile.
func TestBreakGlass(t *testing.T) {
	w := newWorld(t)
	w.grant("base", 1)
	w.policy(w.name, nil)
	must(t, admin.Create(w.ctx, w.configMap("a")))
	w.wantExceeded(w.configMap("b"))
	const counter = "bursar_admission_break_glass_total"
	before := counted(t, counter, nil)
	api, warnings := adminWithWarnings(t, as("jane", quotav1alpha1.BreakGlassGroup))
	must(t, api.Create(w.ctx, w.configMap("b")))
	// So many groups do not fit into an event.
	inMany, _ := adminWithWarnings(t, as("mary", quotav1alpha1.BreakGlassGroup, strings.Repeat("g", 1024)))
	must(t, inMany.Create(w.ctx, w.configMap("c")))
	w.wantBucket(1, 3, 0, 3)
	w.wantEventOn("ConfigMap", "b", "BrokenGlass", "CREATE by jane", quotav1alpha1.BreakGlassGroup, "without quota enforcement")
	w.wantEventOn("ConfigMap", "c", "BrokenGlass", "CREATE by mary", quotav1alpha1.BreakGlassGroup, "without quota enforcement")
	if text := warnings.String(); !strings.Contains(text, "Bursar does not enforce quota for this request") {
		t.Errorf("who breaks the glass is told %q", text)
	}
	if got := counted(t, counter, nil) - before; got != 2 {
		t.Errorf("%v requests are counted, want 2", got)
	}
	w.wantExceeded(w.configMap("d"))
}
