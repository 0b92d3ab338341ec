package bucket

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestStatusIsWrittenWhereItDiffers(t *testing.T) {
	earlier, now := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	type status = quotav1alpha1.AllowanceBucketStatus
	refs := func(amount int64) []quotav1alpha1.ContributingGrantRef {
		return []quotav1alpha1.ContributingGrantRef{{Name: "base", Amount: amount}}
	}
	tests := map[string]struct {
		reason        string
		have, desired status
		want          bool
	}{
		"same":       {"a bucket that is right costs no write", status{Limit: 2, LastReconciliation: &earlier}, status{Limit: 2, LastReconciliation: &now}, false},
		"empty":      {"no grants are no grants", status{ContributingGrantRefs: []quotav1alpha1.ContributingGrantRef{}}, status{LastReconciliation: &now}, false},
		"number":     {"a number counts", status{Limit: 2}, status{Limit: 3}, true},
		"grant":      {"and what it is made of", status{ContributingGrantRefs: refs(1)}, status{ContributingGrantRefs: refs(2)}, true},
		"generation": {"and what it is about", status{}, status{ObservedGeneration: 1}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := differs(tt.have, tt.desired); got != tt.want {
				t.Errorf("got %t, want %t: %s", got, tt.want, tt.reason)
			}
		})
	}
}

func TestTimeIsRenewedOnceItIsOld(t *testing.T) {
	looked := metav1.Unix(1000, 0)
	if needsRenewal(&looked, looked.Add(renewAfter-time.Second)) || !needsRenewal(&looked, looked.Add(renewAfter)) || !needsRenewal(nil, looked.Time) {
		t.Errorf("a time is old from %s on, and one that is missing from the start", renewAfter)
	}
}

func TestDiffersInAvailable(t *testing.T) {
	looked := metav1.Unix(1000, 0)
	type status = quotav1alpha1.AllowanceBucketStatus
	tests := map[string]struct {
		reason        string
		have, desired status
		want          bool
	}{
		"same":      {"nothing happened", status{Available: 2, LastReconciliation: &looked}, status{Available: 2}, false},
		"elsewhere": {"somebody else used an allowance", status{Allocated: 1, Available: 2, LastReconciliation: &looked}, status{Allocated: 1, Available: 1}, true},
		"here":      {"something was charged here", status{Available: 2, LastReconciliation: &looked}, status{Allocated: 1, Available: 1}, false},
		"limit":     {"a limit changed", status{Available: 2, LastReconciliation: &looked}, status{Available: 1, Limit: 1}, false},
		"new":       {"it was never written", status{}, status{Available: 1}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := differsInAvailable(tt.have, tt.desired); got != tt.want {
				t.Errorf("got %t, want %t: %s", got, tt.want, tt.reason)
			}
		})
	}
}

func TestOutdatedBucketsTakeTurns(t *testing.T) {
	var all []outdated
	for n := range availableWritesMax + 5 {
		bucket := &quotav1alpha1.AllowanceBucket{}
		bucket.Status.LastReconciliation = new(metav1.Unix(int64(1000-n), 0))
		all = append(all, outdated{bucket: bucket})
	}
	now, later := oldest(all)
	if len(now) != availableWritesMax || !later {
		t.Fatalf("%d are written now, and more later: %t; want %d and more", len(now), later, availableWritesMax)
	}
	for _, o := range now {
		if o.bucket.Status.LastReconciliation.Unix() > 995 {
			t.Errorf("one that was written at %d goes first, want the oldest", o.bucket.Status.LastReconciliation.Unix())
		}
	}
	if now, later := oldest(all[:availableWritesMax]); len(now) != availableWritesMax || later {
		t.Errorf("%d are written now, and more later: %t; want all", len(now), later)
	}
}
