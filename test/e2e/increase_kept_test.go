package e2e

import (
	"testing"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// A cap stops a quota from rising, and lowers none: nobody loses quota by asking for too much.
func TestRefusedRaiseLowersNothing(t *testing.T) {
	t.Parallel()
	for _, mode := range []openmcpv1alpha1.QuotaMode{cumulative, maximum, singular} {
		t.Run(string(mode), func(t *testing.T) {
			w := newIncreased(t)
			w.cap("count/secrets=100", "count/configmaps=20")
			w.config(w.definition(base, mode, "count/secrets=10"))
			w.use("big")
			big := w.increase("big", "count/secrets=90", "count/configmaps=10")
			all := map[openmcpv1alpha1.QuotaMode]string{cumulative: "count/secrets=100", maximum: "count/secrets=90", singular: "count/secrets=90"}[mode]
			w.wantQuota(base, all, "count/configmaps=10")
			change(w, big, func(q *openmcpv1alpha1.QuotaIncrease) {
				q.Spec.Hard = list("count/secrets=120", "count/configmaps=999")
			})
			w.wantEffect("big", mode, map[openmcpv1alpha1.QuotaMode]string{singular: "[active]"}[mode], no, capReached, "requested: count/configmaps=999")
			w.wantQuota(base, all, "count/configmaps=10") // instead of no limit at all
			change(w, big, func(q *openmcpv1alpha1.QuotaIncrease) {
				q.Spec.Hard = list("count/secrets=20", "count/configmaps=999")
			})
			w.wantQuota(base, map[openmcpv1alpha1.QuotaMode]string{cumulative: "count/secrets=30", maximum: "count/secrets=20", singular: "count/secrets=20"}[mode], "count/configmaps=10")
		})
	}
}

// A resource new to the quota, and not allowed by the cap, gets the amount 0 instead of no limit.
func TestRefusedIncreaseIsALimit(t *testing.T) {
	w := newIncreased(t)
	w.cap("count/configmaps=5")
	w.config(w.definition(base, cumulative, "count/secrets=10"))
	w.increase("more", "count/configmaps=10")
	w.wantQuota(base, "count/secrets=10", "count/configmaps=0")
	w.wantEffect("more", cumulative, "", no, capReached)
}

// A namespace keeps its quota on a switch to a larger definition without room under its cap.
func TestSwitchUnderACap(t *testing.T) {
	w := newIncreased(t)
	w.cap("count/secrets=70")
	w.setTier("gold")
	w.config(w.tiered("gold", cumulative, "count/secrets=60"), w.tiered("premium", cumulative, "count/secrets=80"))
	w.wantQuota("gold", "count/secrets=60")
	w.setTier("premium")
	w.wantQuota("premium", "count/secrets=60")
	w.wantNoQuota("gold")
}
