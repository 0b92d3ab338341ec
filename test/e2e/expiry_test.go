package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/extend"
)

// in returns a time from now.
func in(d time.Duration) *metav1.Time {
	return &metav1.Time{Time: time.Now().Add(d).Truncate(time.Second)}
}

// grantFor creates a grant with a period.
func (w *world) grantFor(name string, amount int64, period quotav1alpha1.Period) *quotav1alpha1.ResourceGrant {
	w.Helper()
	grant := &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.name},
		Spec: quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: w.consumer(), Period: period,
			Allowances: []quotav1alpha1.Allowance{{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: amount}}}},
		},
	}
	w.mustCreate(grant)
	return grant
}

// waitActive waits until the condition Active of a grant has a reason, and returns the time of its transition.
func (w *world) waitActive(grant *quotav1alpha1.ResourceGrant, reason string) time.Time {
	w.Helper()
	var at time.Time
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(grant), grant); err != nil {
			return err
		}
		for _, c := range grant.Status.Conditions {
			if c.Type == quotav1alpha1.ConditionActive && c.Reason == reason {
				at = c.LastTransitionTime.Time
				return nil
			}
		}
		return fmt.Errorf("grant %s has the conditions %+v, want Active for %s", grant.Name, grant.Status.Conditions, reason)
	})
	return at
}

// setPeriod gives a grant another period.
func (w *world) setPeriod(grant *quotav1alpha1.ResourceGrant, period quotav1alpha1.Period) {
	w.Helper()
	change(w, grant, func(g *quotav1alpha1.ResourceGrant) { g.Spec.Period = period })
}

// The end of a grant takes nothing back. Bursar admits nothing more until somebody extends the grant.
func TestGrantEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policy(w.name, nil)
	grant := w.grantFor("trial", 2, quotav1alpha1.Period{NotAfter: in(time.Hour)})
	w.waitActive(grant, quotav1alpha1.ReasonGrantActive)
	w.waitCondition(grant, quotav1alpha1.ConditionExpiring, metav1.ConditionTrue)
	w.wantEventOn("ResourceGrant", "trial", "GrantExpiring", "loses quota soon", "bursar extend trial -n "+w.name)
	w.mustCreate(w.configMap("a"))
	w.wantBucket(2, 1, 1, 1)

	w.setPeriod(grant, quotav1alpha1.Period{NotAfter: in(3 * time.Second)})
	ended := w.waitActive(grant, quotav1alpha1.ReasonExpired)
	if early := grant.Spec.NotAfter.Sub(ended); early > 0 {
		t.Errorf("the grant ended %s before its end", early)
	}
	w.wantEventOn("ResourceGrant", "trial", "GrantExpired", "no longer has quota of this grant", "Its usage stays")
	w.wantBucket(0, 1, 0, 1)
	w.wantExceeded(w.configMap("b"))
	must(t, admin.Get(w.ctx, client.ObjectKeyFromObject(w.configMap("a")), w.configMap("a")))

	extended, err := extend.Run(w.ctx, admin, extend.Options{Grant: client.ObjectKeyFromObject(grant), By: time.Hour})
	must(t, err)
	if !strings.HasPrefix(extended.Text, "ResourceGrant "+w.name+"/trial ends at ") {
		t.Errorf("extend says %q", extended.Text)
	}
	w.waitActive(grant, quotav1alpha1.ReasonGrantActive)
	w.mustCreate(w.configMap("b"))
	w.wantBucket(2, 2, 0, 2)
}

func TestGrantBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policy(w.name, nil)
	grant := w.grantFor("later", 1, quotav1alpha1.Period{NotBefore: in(time.Hour)})
	w.waitActive(grant, quotav1alpha1.ReasonNotYetValid)
	w.wantExceeded(w.configMap("a"))
	w.setPeriod(grant, quotav1alpha1.Period{NotBefore: in(3 * time.Second)})
	began := w.waitActive(grant, quotav1alpha1.ReasonGrantActive)
	if early := grant.Spec.NotBefore.Sub(began); early > 0 {
		t.Errorf("the grant began %s before its begin", early)
	}
	w.mustCreate(w.configMap("a"))
}

// Allowances have ends of their own.
func TestAllowanceEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	grant := &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: "mixed", Namespace: w.name},
		Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: w.consumer(), Allowances: []quotav1alpha1.Allowance{
			{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: 3}}},
			{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: 4}}, Period: quotav1alpha1.Period{NotAfter: in(time.Hour)}},
		}},
	}
	w.mustCreate(grant)
	w.wantBucket(7, 0, 7, 0)
	change(t, grant, func(g *quotav1alpha1.ResourceGrant) { g.Spec.Allowances[1].NotAfter = in(8 * time.Second) })
	w.wantBucket(3, 0, 3, 0)
	eventually(w, func() error { // the ledger has the end before the grant says so
		c := w.waitCondition(grant, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
		if !strings.Contains(c.Message, "1 of 2 allowances counts now") {
			return fmt.Errorf("the condition says %q", c.Message)
		}
		return nil
	})
	w.wantEventOn("ResourceGrant", "mixed", "GrantExpired", w.resourceType()+" ends at")
}

// A grant before its beginning keeps its registration: the amounts are in its unit.
func TestScheduledGrantKeepsItsUnit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	grant := w.grantFor("later", 1, quotav1alpha1.Period{NotBefore: in(time.Hour)})
	w.waitActive(grant, quotav1alpha1.ReasonNotYetValid)
	registration := w.registration(w.resourceType())
	must(t, admin.Get(w.ctx, client.ObjectKeyFromObject(registration), registration))
	registration.Spec.BaseUnit = "dozen"
	if err := admin.Update(w.ctx, registration); err == nil || !strings.Contains(err.Error(), "baseUnit") {
		t.Errorf("got %v for another base unit", err)
	}
}

func TestPeriodsAreValid(t *testing.T) {
	t.Parallel()
	w, moment := newWorld(t), in(time.Hour)
	grant := &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: "odd", Namespace: w.name},
		Spec: quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: w.consumer(), Period: quotav1alpha1.Period{NotBefore: moment, NotAfter: moment},
			Allowances: []quotav1alpha1.Allowance{{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: 3}}}},
		},
	}
	if err := admin.Create(w.ctx, grant); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "notBefore must be earlier than notAfter") {
		t.Errorf("got %v for a period without length", err)
	}
}

func TestExtend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	endless := w.grant("endless", 1)
	_, err := extend.Run(w.ctx, admin, extend.Options{Grant: client.ObjectKeyFromObject(endless), By: time.Hour})
	if err == nil || !strings.Contains(err.Error(), "has no end") {
		t.Errorf("got %v for a grant without an end", err)
	}
	grant := w.grantFor("trial", 1, quotav1alpha1.Period{NotAfter: in(time.Hour)})
	_, err = extend.Run(w.ctx, admin, extend.Options{Grant: client.ObjectKeyFromObject(grant), Until: time.Now().Add(time.Minute)})
	if err == nil || !strings.Contains(err.Error(), "edit the grant") {
		t.Errorf("got %v for an earlier end", err)
	}
	_, err = extend.Run(w.ctx, admin, extend.Options{Grant: client.ObjectKey{Namespace: w.name, Name: "none"}, By: time.Hour})
	if err == nil || !strings.Contains(err.Error(), "there is no ResourceGrant none") {
		t.Errorf("got %v for a grant that does not exist", err)
	}
}
