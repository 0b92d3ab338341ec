package adoption

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// lease has an earlier process have been there until a time.
func (b *bench) lease(until time.Time) {
	b.Helper()
	renewed := metav1.NewMicroTime(until)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: naming.ReviewsLease}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	if _, err := b.Leases.Create(b.Context(), lease, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// A process records the time of its reviews. The next one inspects only later objects, regardless of the age of the
// last reviewed object.
func TestReviewedObjectsAreNotInspectedAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newBench(t, onePage(), completed(time.Unix(1000, 0)))
		first.backlog = newBacklog()
		for range 100 {
			if err := first.renewHeartbeat(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(renewInterval)
		}
		if complete, err := first.scan(); !complete || err != nil {
			t.Fatalf("the scan is complete: %v, %v", complete, err)
		}
		second := newBench(t, onePage("a"), first.stored().Status.Adoption)
		second.backlog = newBacklog()
		second.Leases = first.Leases
		if err := second.recordDowntime(t.Context()); err != nil {
			t.Fatal(err)
		}
		since, err := second.sinceOf(t.Context(), second.stored())
		if age := time.Since(since); err != nil || age < recordDelayMax || age > recordDelayMax+renewInterval {
			t.Errorf("objects are looked at that are up to %s old, error %v; want a minute and a little", age, err)
		}
	})
}

// The record of the gap before the Lease's time precedes the renewal of the Lease.
func TestHeartbeatFollowsTheRecord(t *testing.T) {
	b := newBench(t, onePage("a"), completed(time.Unix(1000, 0)))
	b.Start()
	b.lease(time.Unix(5000, 0))
	b.rejection = errors.New("not now")
	if err := b.renewHeartbeat(t.Context()); !errors.Is(err, b.rejection) {
		t.Fatalf("got %v, want the note to fail", err)
	}
	if until, err := b.lastHeartbeat(t.Context()); err != nil || until.Unix() != 5000 {
		t.Errorf("the Lease says %s, %v; want it to say what it did", until, err)
	}
	b.rejection = nil
	if err := b.renewHeartbeat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if until, err := b.lastHeartbeat(t.Context()); err != nil || time.Since(until) > time.Minute {
		t.Errorf("the Lease says %s, %v; want it to be renewed", until, err)
	}
	if since := b.stored().Status.Adoption.UncheckedSince; since == nil || since.Unix() != 4940 {
		t.Errorf("noted is %v, want second 4940", since)
	}
}

// The status still reports objects without a possible charge, and new failures as well.
func TestFailuresStayReported(t *testing.T) {
	before := completed(time.Unix(1000, 0))
	before.Failed, before.Message, before.Adopted = 2, "no payer", 7
	b := newBench(t, onePage("good", "bad"), before)
	b.Start()
	b.adopter.failures["bad"] = times(9, errors.New("no size"))
	if complete, err := b.scan(); !complete || err != nil {
		t.Fatalf("the scan is complete: %v, %v", complete, err)
	}
	b.want("two that failed before and one now", quotav1alpha1.AdoptionStatus{
		State: quotav1alpha1.AdoptionComplete, Total: 2, Processed: 2, Adopted: 8, Failed: 3, Message: "ConfigMap ns/bad: no size",
	})
	next := newBench(t, onePage("worse"), b.stored().Status.Adoption)
	next.Start()
	next.adopter.failures["worse"] = times(9, errors.New("no name"))
	if complete, err := next.scan(); !complete || err != nil {
		t.Fatalf("the scan is complete: %v, %v", complete, err)
	}
	next.want("a failure is news", quotav1alpha1.AdoptionStatus{
		State: quotav1alpha1.AdoptionComplete, Total: 1, Processed: 1, Adopted: 8, Failed: 4, Message: "ConfigMap ns/worse: no name",
	})
}

// The Lease has the time of the API server's clock, as creation timestamps do, and not of the clock of this machine.
func TestLeaseIsRenewedByTheClockOfTheServer(t *testing.T) {
	b := newBench(t, onePage("a"), completed(time.Unix(1000, 0)))
	b.Start()
	b.Clock = clocktesting.NewFakePassiveClock(time.Unix(7000, 0))
	if err := b.renewHeartbeat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if until, err := b.lastHeartbeat(t.Context()); err != nil || until.Unix() != 7000 {
		t.Errorf("the Lease says %s, %v; want second 7000 of the API server's clock", until, err)
	}
}
