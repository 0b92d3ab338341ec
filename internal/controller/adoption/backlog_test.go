package adoption

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/evaluator"
)

// completed is the status after a complete scan.
func completed(at time.Time) *quotav1alpha1.AdoptionStatus {
	then := metav1.NewTime(at)
	return &quotav1alpha1.AdoptionStatus{State: quotav1alpha1.AdoptionComplete, ObservedGeneration: 3, StartTime: &then, CompletionTime: &then, Processed: 2, Total: 2}
}

// The status records objects with a long wait for the next process, until the inspection of the last of them.
func TestBacklogIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, onePage(), completed(time.Unix(1000, 0)))
		b.backlog = newBacklog()
		note := func(o object) *metav1.Time {
			t.Helper()
			if err := b.recordBacklog(t.Context(), "p", o); err != nil {
				t.Fatal(err)
			}
			return b.stored().Status.Adoption.UncheckedSince
		}
		first, second := object{schema.GroupKind{Kind: "ConfigMap"}, "1"}, object{schema.GroupKind{Kind: "ConfigMap"}, "2"}
		seen := time.Now()
		b.backlog.add(first, time.Now())
		if since := note(first); since != nil {
			t.Errorf("noted at once: %s", since)
		}
		time.Sleep(recordDelay)
		b.backlog.add(second, time.Now())
		if since := note(second); since != nil {
			t.Errorf("noted for one that was just seen: %s", since)
		}
		if since := note(first); since == nil || !since.Time.Equal(seen.Add(-recordDelayMax)) {
			t.Errorf("noted is %v, want %s: what was created a little earlier may not have been seen before", since, seen.Add(-recordDelayMax))
		}
		if err := b.removeFromBacklog(t.Context(), first); err != nil || b.stored().Status.Adoption.UncheckedSince == nil {
			t.Errorf("while one is left, noted is %v, error %v", b.stored().Status.Adoption.UncheckedSince, err)
		}
		if err := b.removeFromBacklog(t.Context(), second); err != nil || b.stored().Status.Adoption.UncheckedSince != nil {
			t.Errorf("in the end, noted is %v, error %v", b.stored().Status.Adoption.UncheckedSince, err)
		}
	})
}

// A policy misses objects while it is not ready. Adoption inspects them later.
func TestPauseIsRecorded(t *testing.T) {
	b := newBench(t, onePage("a"), completed(time.Unix(5000, 0)))
	b.Start()
	away := metav1.Condition{Type: quotav1alpha1.ConditionReady, Status: metav1.ConditionFalse, LastTransitionTime: metav1.Unix(7000, 0)} // the condition is written up to a minute late
	if err := b.pause(t.Context(), b.stored(), &away); err != nil {
		t.Fatal(err)
	}
	away.LastTransitionTime = metav1.Unix(8000, 0) // for another reason
	if err := b.pause(t.Context(), b.stored(), &away); err != nil {
		t.Fatal(err)
	}
	stored := b.stored()
	if since := stored.Status.Adoption.UncheckedSince; since == nil || since.Unix() != 6940 {
		t.Fatalf("noted is %v, want second 6940", since)
	}
	later := newBench(t, onePage("a"), stored.Status.Adoption) // another process
	later.Start()
	later.reviewedUntil = time.Unix(9000, 0)
	since, err := later.sinceOf(t.Context(), stored)
	if err != nil || since.Unix() != 6940 {
		t.Errorf("objects are looked at since %s, error %v; want second 6940", since, err)
	}
	if complete, err := later.scan(); !complete || err != nil {
		t.Fatalf("the scan is complete: %v, %v", complete, err)
	}
	if since := later.stored().Status.Adoption.UncheckedSince; since != nil {
		t.Errorf("after all was looked at, noted is %s", since)
	}
}

// Without a record, adoption inspects objects from the last moments of the previous process, because it may not have
// recorded them.
func TestSinceWhenObjectsAreInspected(t *testing.T) {
	tests := map[string]struct {
		reason string
		until  int64
		status *quotav1alpha1.AdoptionStatus
		want   time.Time
	}{
		"never complete": {"all of them", 9000, nil, time.Time{}},
		"up for long":    {"what was created before was reviewed", 9000, completed(time.Unix(5000, 0)), time.Unix(9000, 0).Add(-recordDelayMax)},
		"nobody knows":   {"since all of them were looked at", 0, completed(time.Unix(5000, 0)), time.Unix(5000, 0).Add(-recordDelayMax)},
		"just complete":  {"older ones were looked at, but for what had not been seen", 5001, completed(time.Unix(5000, 0)), time.Unix(5001, 0).Add(-recordDelayMax)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, onePage(), tt.status)
			b.Start()
			b.reviewedUntil = time.Unix(tt.until, 0)
			if got, err := b.sinceOf(t.Context(), b.stored()); err != nil || !got.Equal(tt.want) {
				t.Errorf("%s: got %s, error %v, want %s", tt.reason, got, err, tt.want)
			}
		})
	}
}

// A process may end before it has inspected the backlog of its predecessor. It leaves a record, because the Lease no
// longer has the time.
func TestInterruptedRecheckContinues(t *testing.T) {
	first := newBench(t, onePage("a", "b"), completed(time.Unix(1000, 0)))
	first.Start()
	first.lease(time.Unix(5000, 0))
	if err := first.recordDowntime(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := newBench(t, onePage("a", "b"), first.stored().Status.Adoption)
	second.Start()
	second.lease(time.Unix(9000, 0))
	if err := second.recordDowntime(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a pause does not make it later
		since, err := second.sinceOf(t.Context(), second.stored())
		if want := time.Unix(5000, 0).Add(-recordDelayMax); err != nil || !since.Equal(want) {
			t.Errorf("objects are looked at since %s, error %v; want %s", since, err, want)
		}
		away := metav1.Condition{Type: quotav1alpha1.ConditionReady, Status: metav1.ConditionFalse, LastTransitionTime: metav1.Unix(9500, 0)}
		if err := second.pause(t.Context(), second.stored(), &away); err != nil {
			t.Fatal(err)
		}
	}
	if complete, err := second.scan(); !complete || err != nil {
		t.Fatalf("the scan is complete: %v, %v", complete, err)
	}
	if since := second.stored().Status.Adoption.UncheckedSince; since != nil {
		t.Errorf("after all was looked at, noted is %s", since)
	}
}

// While the registrations do not allow a policy, no scan completes.
func TestScanWhileThePolicyIsNotAllowed(t *testing.T) {
	b := newBench(t, onePage("a"), nil)
	registration := &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: "t", ConsumerTypeRef: quotav1alpha1.ConsumerTypeRef{Kind: "Org"},
		},
		Status: quotav1alpha1.ResourceRegistrationStatus{Conditions: []metav1.Condition{{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue}}},
	}
	b.Catalog.SetRegistration(registration) // no kind may claim any more
	planner := &evaluator.Evaluator{Catalog: b.Catalog}
	object := evaluator.Object{Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Name: types.NamespacedName{Namespace: "n", Name: "a"}}
	_, err := planner.Evaluate(t.Context(), b.Catalog.Policy("p"), object, planner.Input(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "n", "name": "a"},
	}))
	if !evaluator.IsNotAllowed(err) {
		t.Fatalf("got %v, want the registration not to allow it", err)
	}
	b.adopter.failures["a"] = times(9, err)
	if complete, err := b.scan(); complete || err != nil {
		t.Errorf("the scan is complete: %v, %v; want it to be done once more", complete, err)
	}
}

// TestReviewedByPeer has objects reviewed by another replica. They cause no event and no charge, and one query asks
// about all of them.
func TestReviewedByPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.backlog = newBacklog()
		recorder := events.NewFakeRecorder(1)
		b.Events = recorder
		b.reviewed.elsewhere = true
		kind := schema.GroupKind{Kind: "ConfigMap"}
		objects := []object{{kind, "a"}, {kind, "b"}, {kind, "c"}}
		for _, o := range objects {
			b.backlog.add(o, time.Now())
		}
		time.Sleep(reviewTimeout)
		b.backlog.add(object{kind, "young"}, time.Now())
		for _, o := range objects {
			if len(b.unreviewedPolicies(o.kind, o.uid)) != 1 {
				t.Fatal("this replica has reviewed it")
			}
			if err := b.adoptUnreviewed(t.Context(), o, types.NamespacedName{Namespace: "n", Name: string(o.uid)}); err != nil {
				t.Fatal(err)
			}
		}
		if len(b.adopter.calls) != 0 || len(recorder.Events) != 0 || b.reviewed.questions != 1 {
			t.Errorf("they are looked at (%v), told of (%d events), and asked about %d times", b.adopter.calls, len(recorder.Events), b.reviewed.questions)
		}
		if _, isKnown := b.peerReviews.lookup("young", b.Catalog.Policy("p")); isKnown {
			t.Error("the others were asked about an object whose claim may be on its way here")
		}
	})
}

// away serves no kind.
type away struct{}

func (away) VersionedResourceFor(context.Context, schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	return schema.GroupVersionResource{}, false, nil
}

// The claims of a kind may be gone when the kind comes back after a long time. So adoption then inspects all of its
// objects, of any age, also in another process.
func TestObjectsOfAKindThatComesBack(t *testing.T) {
	b := newBench(t, onePage(), completed(time.Unix(5000, 0)))
	b.Start()
	b.Kinds = away{}
	notServed := metav1.Condition{Type: quotav1alpha1.ConditionReady, Status: metav1.ConditionFalse, LastTransitionTime: metav1.Unix(7000, 0)}
	if err := b.pause(t.Context(), b.stored(), &notServed); err != nil {
		t.Fatal(err)
	}
	later := newBench(t, onePage("old"), b.stored().Status.Adoption)
	later.Start()
	later.reviewedUntil = time.Unix(9000, 0)
	since, err := later.sinceOf(t.Context(), later.stored())
	if err != nil || since.After(time.Unix(0, 0)) {
		t.Errorf("objects are looked at since %s, error %v; want all", since, err)
	}
	if complete, err := later.scan(); !complete || err != nil || !later.adopter.adopted["old"] {
		t.Errorf("the scan is complete: %v, %v, and has adopted %v", complete, err, later.adopter.adopted)
	}
	if since := later.stored().Status.Adoption.UncheckedSince; since != nil {
		t.Errorf("after all was looked at, noted is %s", since)
	}
}
