package claims

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/kube/progress"
	"github.com/bursar/bursar/internal/ledger"
)

// TestTimesOfAllocations checks the time of each allocation: it is the time of its own last change.
func TestTimesOfAllocations(t *testing.T) {
	claim := &quotav1alpha1.ResourceClaim{Spec: quotav1alpha1.ResourceClaimSpec{
		ConsumerRef: quotav1alpha1.ConsumerRef{Kind: "Organization", Name: "acme"},
		Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: "cpu", Amount: 1}, {ResourceType: "memory", Amount: 2}},
	}}
	short := func(resourceType string, used ledger.Amount) []ledger.Shortage {
		return []ledger.Shortage{{ResourceType: resourceType, Requested: 2, Used: used, Limit: 4}}
	}
	registrations := catalog.New()
	steps := []struct {
		reason      string
		decide      func(now time.Time)
		cpu, memory int64 // the seconds in the allocations
	}{
		{"the first decision", func(now time.Time) { Deny(claim, registrations, short("memory", 3), now) }, 1, 1},
		{"the same once more", func(now time.Time) { Deny(claim, registrations, short("memory", 3), now) }, 1, 1},
		{"more is used of one type", func(now time.Time) { Deny(claim, registrations, short("memory", 4), now) }, 1, 3},
		{"a decision on both", func(now time.Time) { Grant(claim, registrations, now) }, 4, 4},
		{"the same once more", func(now time.Time) { Grant(claim, registrations, now) }, 4, 4},
		{"another reason", func(now time.Time) { Reject(claim, progress.Waiting, "the registration is gone", now) }, 6, 6},
	}
	for i, step := range steps {
		step.decide(time.Unix(int64(i+1), 0))
		for j, want := range []int64{step.cpu, step.memory} {
			a := claim.Status.Allocations[j]
			if got := a.LastTransitionTime; !got.Equal(&metav1.Time{Time: time.Unix(want, 0)}) {
				t.Errorf("step %d, %s: %s changed in second %d, want %d", i+1, step.reason, a.ResourceType, got.Unix(), want)
			}
		}
	}
}
