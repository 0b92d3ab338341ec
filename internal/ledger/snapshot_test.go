package ledger_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/ledger"
)

func someSnapshot() ledger.Snapshot {
	eu := dimensionsOf("region", "eu")
	return ledger.Snapshot{
		Sequence: 9,
		Grants: []ledger.Grant{
			{UID: "g1", Namespace: "acme", Name: "base", Generation: 2, Allowances: []ledger.Allowance{{ResourceType: "gpu", Amount: 8}}},
			{UID: "g2", Allowances: []ledger.Allowance{{ResourceType: "gpu", Selector: selectorOf(in("region", "eu")), Amount: 2}}},
		},
		Observations: []ledger.Observation{
			{Kind: "jobs", Basis: ledger.Basis{Objects: 8}, Demands: []ledger.Demand{{ResourceType: "gpu", Amount: 1, Objects: 1}}},
			{Kind: "pods", Basis: ledger.Basis{Objects: 9}, Demands: []ledger.Demand{
				{ResourceType: "cpu", Amount: 4, Objects: 1}, {ResourceType: "gpu", Dimensions: eu, Amount: 3, Objects: 2},
			}},
		},
		Reservations: []ledger.Reservation{
			{Key: "b", Sequence: 4, ReservedAt: 1700000000, Charges: []ledger.Charge{{ResourceType: "gpu", Dimensions: eu, Amount: 1}}, Claim: "{}"},
			{Key: "a", Sequence: 7, Charges: []ledger.Charge{{ResourceType: "gpu", Amount: 2}, {ResourceType: "ram", Amount: 1}}},
		},
	}
}

func mustRead(t *testing.T, b ledger.Snapshot) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Restore(b)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSnapshotsAreOrdered(t *testing.T) {
	shuffled := someSnapshot()
	slices.Reverse(shuffled.Grants)
	slices.Reverse(shuffled.Observations)
	slices.Reverse(shuffled.Observations[0].Demands)
	slices.Reverse(shuffled.Reservations)
	l := mustRead(t, shuffled)
	if difference := cmp.Diff(someSnapshot(), l.Snapshot(), comparable...); difference != "" {
		t.Errorf("the snapshot depends on the order in which they were read (-want +got):\n%s", difference)
	}
	if d := l.Reserve(ledger.Reservation{Key: "c", Charges: []ledger.Charge{{ResourceType: "gpu", Amount: 1}}}); d.Sequence != 10 {
		t.Errorf("the sequence went on at %d, want 10: it must never be given twice", d.Sequence)
	}
}

func TestSnapshotsSurviveJSON(t *testing.T) {
	encoded := encode(t, someSnapshot())
	var decoded ledger.Snapshot
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(someSnapshot(), decoded, comparable...); difference != "" {
		t.Errorf("the snapshot changed on their way through JSON (-want +got):\n%s", difference)
	}
}

func TestLedgerSharesNothingThatChanges(t *testing.T) {
	l := ledger.New()
	allowances := []ledger.Allowance{{ResourceType: "gpu", Amount: 5}}
	if _, err := l.SetGrant(ledger.Grant{UID: "g", Allowances: allowances}); err != nil {
		t.Fatal(err)
	}
	charges := []ledger.Charge{{ResourceType: "gpu", Amount: 2}}
	l.Reserve(ledger.Reservation{Key: "a", Charges: charges})
	snapshot := l.Snapshot()
	before := string(encode(t, snapshot))
	allowances[0].Amount, charges[0].Amount = 77, 77
	l.Cancel("a", 0)
	use(t, l, "gpu", ledger.Dimensions{}, 2)
	l.RemoveGrant("g")
	if after := string(encode(t, snapshot)); after != before {
		t.Errorf("the snapshot changed after they were taken:\n%s\n%s", before, after)
	}
	if got, want := l.Account("gpu"), (ledger.Account{Used: 2, Claims: 1}); got != want {
		t.Errorf("the account is %+v, want %+v", got, want)
	}
}

func TestIterationMayStopAndChange(t *testing.T) {
	l := mustRead(t, someSnapshot())
	for range l.Grants() {
		break
	}
	for range l.Observations() {
		break
	}
	var keys []string
	for r := range l.Reservations() {
		keys = append(keys, r.Key)
		l.Cancel("a", 0)
		l.Cancel("b", 0)
	}
	if !slices.Equal(keys, []string{"b", "a"}) || l.ReservationCount() != 0 {
		t.Errorf("saw %v and %d are left; want both, as they were when the iteration began", keys, l.ReservationCount())
	}
}

func TestRestoreRejects(t *testing.T) {
	const largest = ledger.Amount(math.MaxInt64)
	for name, c := range map[string]struct {
		damage func(*ledger.Snapshot)
		want   string
	}{
		"grant twice":           {func(b *ledger.Snapshot) { b.Grants[1].UID = "g1" }, "its UID is that of another grant"},
		"grant without UID":     {func(b *ledger.Snapshot) { b.Grants[0].UID = "" }, "grant acme/base (UID ): its UID is empty"},
		"negative allowance":    {func(b *ledger.Snapshot) { b.Grants[0].Allowances[0].Amount = -1 }, "negative"},
		"limit overflows":       {func(b *ledger.Snapshot) { b.Grants[0].Allowances[0].Amount = largest }, "add up to more than 2^63-1"},
		"negative demand":       {func(b *ledger.Snapshot) { b.Observations[1].Demands[0].Amount = -1 }, "-1 by 1 objects is out of range"},
		"negative objects":      {func(b *ledger.Snapshot) { b.Observations[1].Demands[0].Objects = -1 }, "4 by -1 objects is out of range"},
		"objects out of range":  {func(b *ledger.Snapshot) { b.Observations[1].Demands[0].Objects = ledger.CountMax + 1 }, "out of range"},
		"objects overflow":      {func(b *ledger.Snapshot) { b.Observations[1].Demands[1].Objects = ledger.CountMax }, "demand for gpu does not fit beside"},
		"demand for nothing":    {func(b *ledger.Snapshot) { b.Observations[1].Demands[0].ResourceType = "" }, "must have 1 to 253 bytes"},
		"demand twice":          {func(b *ledger.Snapshot) { b.Observations[1].Demands[0] = b.Observations[1].Demands[1] }, "demand for gpu (region=eu) is repeated"},
		"demand overflows":      {func(b *ledger.Snapshot) { b.Observations[1].Demands[1].Amount = largest }, "demand for gpu does not fit beside"},
		"kind twice":            {func(b *ledger.Snapshot) { b.Observations[1].Kind = "jobs" }, "observation of jobs is repeated"},
		"reservation twice":     {func(b *ledger.Snapshot) { b.Reservations[1].Key = "b" }, `reservation "b" is repeated`},
		"reservation invalid":   {func(b *ledger.Snapshot) { b.Reservations[0].Charges = nil }, `reservation "b": ChargesMissing`},
		"reservation overflows": {func(b *ledger.Snapshot) { b.Reservations[0].Charges[0].Amount = largest }, `reservation "b": Overflow`},
		"sequence twice":        {func(b *ledger.Snapshot) { b.Reservations[0].Sequence = 7 }, "sequence 7 is repeated or out of range"},
		"sequence zero":         {func(b *ledger.Snapshot) { b.Reservations[0].Sequence = 0 }, "sequence 0 is repeated or out of range"},
		"sequence negative":     {func(b *ledger.Snapshot) { b.Sequence, b.Reservations = -1, nil }, "sequence -1 is not between"},
		"sequence behind":       {func(b *ledger.Snapshot) { b.Sequence = 6 }, "sequence 6 is not between that of the latest reservation, 7,"},
		"sequence out of range": {func(b *ledger.Snapshot) { b.Sequence = math.MaxInt64 }, "is not between"},
	} {
		t.Run(name, func(t *testing.T) {
			b := someSnapshot()
			c.damage(&b)
			if _, err := ledger.Restore(b); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want an error with %q", err, c.want)
			}
		})
	}
}

func TestBoundsOnGrantsAndBalances(t *testing.T) {
	allowances := func(count int, selective bool) []ledger.Allowance {
		list := make([]ledger.Allowance, count)
		for i := range list {
			list[i] = ledger.Allowance{ResourceType: "gpu", Amount: 1}
			if selective {
				list[i].Selector = selectorOf(in("region", fmt.Sprint(i)))
			}
		}
		return list
	}
	grants := func(count int) []ledger.Grant {
		list := make([]ledger.Grant, count)
		for i := range list {
			list[i].UID, list[i].Name = fmt.Sprint(i), strings.Repeat("n", ledger.GrantBytesMax/16-100)
		}
		return list
	}
	for name, c := range map[string]struct {
		fits, tooMany func(*ledger.Ledger) error
		want          string
	}{
		"grants": {
			func(l *ledger.Ledger) error { _, err := l.ReplaceGrants(grants(16)); return err },
			func(l *ledger.Ledger) error { _, err := l.SetGrant(grants(17)[16]); return err },
			"at most 262144 are allowed: merge some of them",
		},
		"allowances": {
			func(l *ledger.Ledger) error {
				_, err := l.SetGrant(ledger.Grant{UID: "g", Allowances: allowances(ledger.AllowancesMax, false)})
				return err
			},
			func(l *ledger.Ledger) error {
				_, err := l.SetGrant(ledger.Grant{UID: "g", Allowances: allowances(ledger.AllowancesMax+1, false)})
				return err
			},
			"1025 allowances",
		},
		"selectors": {
			func(l *ledger.Ledger) error {
				_, err := l.SetGrant(ledger.Grant{UID: "g", Allowances: allowances(ledger.SelectorsMax, true)})
				return err
			},
			func(l *ledger.Ledger) error {
				_, err := l.SetGrant(ledger.Grant{UID: "h", Allowances: []ledger.Allowance{{ResourceType: "new"}, {ResourceType: "gpu", Amount: 1}}})
				return err
			},
			"more than 64 different selectors",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledger.New()
			if err := c.fits(l); err != nil {
				t.Fatalf("as many as allowed: %v", err)
			}
			before := string(encode(t, l.Snapshot()))
			if err := c.tooMany(l); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want an error with %q", err, c.want)
			}
			if after := string(encode(t, l.Snapshot())); after != before {
				t.Error("the ledger changed with an error")
			}
			if slices.Contains(l.ResourceTypes(), "new") {
				t.Error("a resource type stayed of a grant that was rejected")
			}
		})
	}
}
