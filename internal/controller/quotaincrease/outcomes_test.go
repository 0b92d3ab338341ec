package quotaincrease

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The reconciler tries a failed write again at once, and reports it when writes have failed for a while.
func TestFailureIsReportedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, more := platform(openmcpv1alpha1.ModeCumulative, "count/secrets=10"), quotaIncrease("more", "count/secrets=5")
		w := newWorld(t, config, more)
		w.settled()
		says := func(reason, want string, fails bool) {
			t.Helper()
			if _, err := w.reconcile(); (err != nil) != fails {
				t.Errorf("%s: got error %v", reason, err)
			}
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(more), more); err != nil {
				t.Fatal(err)
			}
			effective := apimeta.FindStatusCondition(more.Status.Conditions, openmcpv1alpha1.ConditionEffective)
			got := w.outcomes.all()[team].reason
			if got != want || (effective.Reason == openmcpv1alpha1.ReasonQuotaNotWritten) != (want != "") {
				t.Errorf("%s: the definition says %q and the increase %s, want %q", reason, got, effective.Reason, want)
			}
		}
		breakIt := func() {
			w.reject = func(verb string, object client.Object) error {
				if verb == "update" && object.GetName() == "base" {
					return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
				}
				return nil
			}
			config.Spec.Quotas[0].Template.Spec.Hard = amounts("count/secrets=11")
			config.Generation++
			if err := w.Client.Update(t.Context(), config); err != nil {
				t.Fatal(err)
			}
		}
		breakIt()
		says("the first failure may pass", "", true)
		w.reject = func(string, client.Object) error { return nil }
		says("it has passed", "", false)
		time.Sleep(reportFailureAfter) // of the test's own clock
		config.Spec.Quotas[0].Template.Labels["another"] = "label"
		breakIt()
		says("another one may pass too", "", true)
		time.Sleep(reportFailureAfter - time.Millisecond)
		says("and the next", "", true)
		time.Sleep(time.Millisecond)
		says("it has not passed", openmcpv1alpha1.ReasonWriteFailed, true)
		says("nor later", openmcpv1alpha1.ReasonWriteFailed, true)
		w.reject = func(string, client.Object) error { return nil }
		says("it is written", "", false)
	})
}

// A namespace without an outcome gets a record of any failure, and nothing waits for it; later failures change nothing.
func TestFailureOfTheUnknown(t *testing.T) {
	told := map[string]int{}
	o := &outcomes{onChange: func(config string) { told[config]++ }}
	o.failed("new", errors.New("no answer"))
	if got := o.all()["new"]; got.reason != openmcpv1alpha1.ReasonWriteFailed || got.message != "no answer" {
		t.Errorf("the new one is %+v", got)
	}
	known := outcome{config: "platform", definition: "base"}
	o.set("known", known)
	o.failed("known", errors.New("no answer"))
	if got := o.all()["known"]; !got.equal(known) {
		t.Errorf("the known one is %+v", got)
	}
	if len(told) != 1 || told["platform"] != 1 {
		t.Errorf("told %v, want platform once", told)
	}
}

// After the end of a cap the retries come soon, and ever later.
func TestRetriesAfterTheEndOfACap(t *testing.T) {
	var o outcomes
	if got := o.nextRetry(team); got != heldBackRetry {
		t.Errorf("without a change: got %s, want %s", got, heldBackRetry)
	}
	o.capEnded(team)
	for want := heldBackRetryMin; want < heldBackRetry; want *= 2 {
		if got := o.nextRetry(team); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := o.nextRetry(team); got != heldBackRetry {
		t.Errorf("at last: got %s, want %s", got, heldBackRetry)
	}
}

// The end of an allocation is tried out at once in its held back namespaces, and only there.
func TestAfterAllocation(t *testing.T) {
	ended := &quotav1alpha1.ResourceQuotaAllocation{}
	ended.Spec.Selector.MatchLabels = map[string]string{"tier": "gold"}
	tests := map[string]struct {
		labels     map[string]string
		isHeldBack bool
		want       bool
	}{
		"HeldBack":    {map[string]string{"tier": "gold"}, true, true},
		"Whole":       {map[string]string{"tier": "gold"}, false, false},
		"NotSelected": {map[string]string{"tier": "silver"}, true, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if err := w.Client.Update(t.Context(), namespace(tt.labels)); err != nil {
				t.Fatal(err)
			}
			w.outcomes.set(team, outcome{isHeldBack: tt.isHeldBack})
			if got := len(w.afterAllocation(t.Context(), ended)) == 1; got != tt.want {
				t.Errorf("queued: got %t, want %t", got, tt.want)
			}
			if got := w.outcomes.nextRetry(team) == heldBackRetryMin; got != tt.want {
				t.Errorf("tried again soon: got %t, want %t", got, tt.want)
			}
		})
	}
}
