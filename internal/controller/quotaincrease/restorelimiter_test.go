package quotaincrease

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// Another client changes a ResourceQuota after every restore. It causes at most one write a second, and a report. The
// reconciler writes other changes at once.
func TestRestoreLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := platform(openmcpv1alpha1.ModeCumulative, "count/secrets=10")
		w := newWorld(t, config)
		w.settled()
		isTold := func() bool {
			return slices.ContainsFunc(w.events, func(s string) bool {
				return strings.HasPrefix(s, "QuotaContested: somebody else keeps changing ResourceQuota base")
			})
		}
		// spoil changes the ResourceQuota, and reports whether the reconciler restores it at once.
		spoil := func() (isRestored bool) {
			t.Helper()
			quota, err := w.storedQuota(t.Context(), team, "base")
			if err != nil {
				t.Fatal(err)
			}
			quota.Spec.Hard = corev1.ResourceList{}
			if err := w.Client.Update(t.Context(), quota); err != nil {
				t.Fatal(err)
			}
			result := w.settled()
			if isRestored = w.hard("base") != ""; !isRestored && (result.RequeueAfter <= 0 || result.RequeueAfter > time.Second) {
				t.Errorf("it is restored after %s, want a second at most", result.RequeueAfter)
			}
			return isRestored
		}
		for i := range restoresAtOnce {
			if !spoil() {
				t.Fatalf("restore %d is too late", i)
			}
		}
		if isTold() {
			t.Errorf("it is called a fight already: %q", w.events)
		}
		for range 3 {
			if spoil() || !isTold() {
				t.Errorf("it is restored once more, or nobody is told: %q", w.events)
			}
			time.Sleep(time.Second) // of the test's own clock
			w.settled()
			w.wantHard("a second has passed", "base", "count/secrets=10")
		}
		config.Spec.Quotas[0].Template.Spec.Hard = amounts("count/secrets=20")
		config.Generation++
		if err := w.Client.Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		w.settled()
		w.wantHard("that is nobody else's change", "base", "count/secrets=20")
	})
}
