package history

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// revision is one of a ledger with a limit of 3. Every claim holds 1.
type revision struct {
	sequence, version, observed int64
	reserved                    map[int64]string // keys by sequence
}

func (r revision) ledger() *quotav1alpha1.ConsumerLedger {
	ledger := &quotav1alpha1.ConsumerLedger{ObjectMeta: metav1.ObjectMeta{Name: "ledger"}}
	ledger.Spec = quotav1alpha1.ConsumerLedgerSpec{
		ConsumerRef: quotav1alpha1.ConsumerRef{Name: "acme"}, Sequence: r.sequence,
		Grants: []quotav1alpha1.LedgerGrant{{Allowances: []quotav1alpha1.LedgerAllowance{{ResourceType: "t", Amount: 3}}}},
	}
	if r.version > 0 {
		o := quotav1alpha1.LedgerObservation{Kind: "claims", ObjectsVersion: r.version}
		if r.observed != 0 {
			o.Demands = []quotav1alpha1.LedgerDemand{{ResourceType: "t", Amount: r.observed, Objects: r.observed}}
		}
		ledger.Spec.Observations = []quotav1alpha1.LedgerObservation{o}
	}
	for sequence, key := range r.reserved {
		ledger.Spec.Reservations = append(ledger.Spec.Reservations, quotav1alpha1.LedgerReservation{
			Key: key, Sequence: sequence, Charges: []quotav1alpha1.LedgerCharge{{ResourceType: "t", Amount: 1}},
		})
	}
	return ledger
}

func TestChecker(t *testing.T) {
	type keys = map[int64]string
	for name, tt := range map[string]struct {
		reason    string
		revisions []revision
		want      string // part of the first violation, or empty
	}{
		"life of a claim": {"all is as it should be", []revision{
			{}, {sequence: 2, reserved: keys{1: "a", 2: "b"}}, {sequence: 2, version: 7, observed: 1, reserved: keys{2: "b"}},
			{sequence: 3, version: 8, observed: 2, reserved: keys{3: "c"}}, {sequence: 3, version: 9, observed: 2},
		}, ""},
		"beyond the limit": {"4 of 3", []revision{
			{sequence: 2, reserved: keys{1: "a", 2: "b"}}, {sequence: 4, version: 7, observed: 2, reserved: keys{3: "c", 4: "d"}},
		}, "4 of t are charged, the limit is 3"},
		"a late claim": {"nothing was admitted for it", []revision{
			{sequence: 1, version: 7, observed: 3}, {sequence: 1, version: 8, observed: 4},
		}, ""},
		"reserved twice": {"one object has two reservations", []revision{{sequence: 2, reserved: keys{1: "a", 2: "a"}}}, "a is reserved twice"},
		"there again": {"it has ended", []revision{
			{sequence: 1, reserved: keys{1: "a"}}, {sequence: 1}, {sequence: 1, reserved: keys{1: "a"}},
		}, "is there again"},
		"overwritten": {"a writer did not see what another had written", []revision{
			{}, {sequence: 1, reserved: keys{1: "a"}}, {sequence: 1, reserved: keys{1: "b"}},
		}, "was one of a"},
		"backwards":            {"an older state is written", []revision{{sequence: 2, reserved: keys{2: "a"}}, {sequence: 1}}, "falls from 2 to 1"},
		"observed backwards":   {"an older observation is written", []revision{{version: 8}, {version: 7}}, "falls from version 8 to 7"},
		"negative observation": {"no demand is less than nothing", []revision{{version: 7, observed: -1}}, "-1 of t are used"},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewChecker()
			for i, b := range tt.revisions {
				c.Ledger(int64(i), b.ledger())
			}
			got := strings.Join(c.Violations, "\n")
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%s: got violations %q, want %q", tt.reason, got, tt.want)
			}
		})
	}
}
