package history

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// revision is one of a ledger with a limit of 3. Every claim holds 1.
type revision struct {
	sequence, used int64
	reserved       map[int64]string // keys by sequence
	released       []string
	withdrawn      int64 // a sequence
}

func (r revision) ledger() *quotav1alpha1.ConsumerLedger {
	ledger := &quotav1alpha1.ConsumerLedger{ObjectMeta: metav1.ObjectMeta{Name: "ledger"}}
	ledger.Spec = quotav1alpha1.ConsumerLedgerSpec{
		ConsumerRef: quotav1alpha1.ConsumerRef{Name: "acme"}, Sequence: r.sequence, Released: r.released,
		Grants: []quotav1alpha1.LedgerGrant{{Allowances: []quotav1alpha1.LedgerAllowance{{ResourceType: "t", Amount: 3}}}},
		Used:   []quotav1alpha1.LedgerUsage{{ResourceType: "t", Amount: r.used, Claims: r.used}},
	}
	if r.withdrawn > 0 {
		ledger.Spec.Withdrawn = []quotav1alpha1.LedgerSequenceRange{{First: r.withdrawn, Last: r.withdrawn}}
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
			{}, {sequence: 2, reserved: keys{1: "a", 2: "b"}}, {sequence: 2, used: 1, reserved: keys{2: "b"}},
			{sequence: 3, used: 2, reserved: keys{3: "c"}}, {sequence: 3, used: 1, released: []string{"uid-1"}}, {sequence: 3, used: 1},
		}, ""},
		"released before it is settled": {"the charge was reserved alone", []revision{
			{sequence: 1, reserved: keys{1: "a"}}, {sequence: 1, released: []string{"uid-1"}},
		}, ""},
		"beyond the limit": {"4 of 3", []revision{
			{sequence: 2, used: 0, reserved: keys{1: "a", 2: "b"}}, {sequence: 4, used: 2, reserved: keys{3: "c", 4: "d"}},
		}, "4 of t are charged, the limit is 3"},
		"reserved twice": {"one object has two reservations", []revision{{sequence: 2, reserved: keys{1: "a", 2: "a"}}}, "a is reserved twice"},
		"charged again": {"the object pays already", []revision{
			{sequence: 1, reserved: keys{1: "a"}}, {sequence: 1, used: 1}, {sequence: 2, used: 1, reserved: keys{2: "a"}}, {sequence: 2, used: 2},
		}, "charges a a second time"},
		"settled twice": {"the reservation was gone", []revision{
			{sequence: 1, reserved: keys{1: "a"}}, {sequence: 1, used: 1}, {sequence: 1, used: 2},
		}, "1 charges of t were settled, of 0"},
		"lost": {"nobody released it", []revision{
			{sequence: 1, reserved: keys{1: "a"}}, {sequence: 1, used: 1}, {sequence: 1},
		}, "-1 charges of t were settled"},
		"released twice": {"it was forgotten in between", []revision{
			{sequence: 2, reserved: keys{1: "a", 2: "b"}}, {sequence: 2, used: 2}, {sequence: 2, used: 1, released: []string{"uid-1"}},
			{sequence: 2, used: 1}, {sequence: 2, released: []string{"uid-1"}},
		}, "uid-1 is released a second time"},
		"second claim": {"both were made from one reservation", []revision{
			{sequence: 2, reserved: keys{1: "a", 2: "b"}}, {sequence: 2, used: 2}, {sequence: 2, used: 1, released: []string{"uid-1"}},
			{sequence: 2, released: []string{"uid-1-again"}},
		}, "is released already"},
		"given back though cancelled": {"nothing was charged for its claim", []revision{
			{sequence: 2, reserved: keys{1: "a", 2: "b"}}, {sequence: 2, used: 1, reserved: keys{2: "b"}},
			{sequence: 2, used: 1}, {sequence: 2, released: []string{"uid-2"}},
		}, "reservation 2 was cancelled"},
		"withdrawn": {"its claim gives nothing back", []revision{
			{sequence: 2, reserved: keys{1: "a", 2: "b"}}, {sequence: 2, used: 1, withdrawn: 2},
			{sequence: 2, withdrawn: 2, released: []string{"uid-1"}},
		}, ""},
		"given back though withdrawn": {"nothing was charged for its claim", []revision{
			{sequence: 2, reserved: keys{1: "a", 2: "b"}}, {sequence: 2, used: 1, withdrawn: 2},
			{sequence: 2, withdrawn: 2, released: []string{"uid-2"}},
		}, "reservation 2 was cancelled"},
		"there again": {"it was cancelled", []revision{
			{sequence: 1, reserved: keys{1: "a"}}, {sequence: 1}, {sequence: 1, reserved: keys{1: "a"}},
		}, "is there again"},
		"overwritten": {"a writer did not see what another had written", []revision{
			{}, {sequence: 1, reserved: keys{1: "a"}}, {sequence: 1, reserved: keys{1: "b"}},
		}, "was one of a"},
		"backwards": {"an older state is written", []revision{{sequence: 2, reserved: keys{2: "a"}}, {sequence: 1}}, "falls from 2 to 1"},
		"negative":  {"no usage is less than nothing", []revision{{used: -1}}, "-1 of t are used"},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewChecker()
			for uid, sequence := range map[string]string{"uid-1": "1", "uid-2": "2", "uid-1-again": "1"} {
				c.Claim(&quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
					UID: types.UID(uid), Annotations: map[string]string{quotav1alpha1.AnnotationReservation: sequence},
				}})
			}
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
