package ledgerstore

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// With any texts, a stored ledger takes no more bytes than its count.
func TestStoredSizeIsBounded(t *testing.T) {
	texts := map[string]string{
		"letters": "a", "quotes": `"`, "backslashes": `\`, "tags": "<", "ampersands": "&", "newlines": "\n", "controls": "\x01", "deletes": "\x7f",
		"accents": "é", "line separators": "\u2028", "signs": "€", "emoji": "😀", "invalid": "\xff",
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			l := fullOf(t, text)
			body, err := json.Marshal(&quotav1alpha1.ConsumerLedger{Spec: specOf(quotav1alpha1.ConsumerRef{Kind: "O", Name: strings.Repeat("n", 253)}, l.Snapshot())})
			if err != nil {
				t.Fatal(err)
			}
			if len(body) > l.Bytes() {
				t.Errorf("%d bytes are stored of a ledger that counts %d", len(body), l.Bytes())
			}
			const usual = 50_000
			if len(body) < usual || name == "letters" && l.Bytes() > len(body)*5/4 {
				t.Errorf("%d bytes are stored of a ledger that counts %d: that is too much", len(body), l.Bytes())
			}
		})
	}
}

// An observation and an awaited change take no more bytes than each counts, whatever the rest of the ledger leaves
// unused.
func TestObservedSizeIsBounded(t *testing.T) {
	eu, err := ledger.NewDimensions(map[string]string{"region": "eu"})
	if err != nil {
		t.Fatal(err)
	}
	without := ledger.Snapshot{Sequence: 1}
	demand := ledger.Demand{ResourceType: "cpu", Dimensions: eu, Amount: ledger.AmountMax / 4, Objects: 1 << 60}
	observed, pending := without, without
	for _, kind := range []string{"pods", "jobs"} {
		observed.Observations = append(observed.Observations, ledger.Observation{
			Kind: kind, Basis: ledger.Basis{Objects: math.MaxInt64, Namespaces: math.MaxInt64, Policies: math.MaxInt64}, Demands: []ledger.Demand{demand},
		})
	}
	pending.Reservations = []ledger.Reservation{{Key: "k", Sequence: 1, Charges: []ledger.Charge{{ResourceType: "cpu", Amount: 1}}}}
	awaiting := pending
	awaiting.Reservations = slices.Clone(pending.Reservations)
	awaiting.Reservations[0].Awaits = &ledger.Awaited{Kind: "pods", ID: "u", After: math.MaxInt64, Namespaces: math.MaxInt64, Policies: math.MaxInt64}
	for name, tt := range map[string]struct{ before, after ledger.Snapshot }{"observations": {without, observed}, "awaited change": {pending, awaiting}} {
		t.Run(name, func(t *testing.T) {
			storedBefore, countedBefore := sizesOf(t, tt.before)
			storedAfter, countedAfter := sizesOf(t, tt.after)
			if stored, counted := storedAfter-storedBefore, countedAfter-countedBefore; stored > counted {
				t.Errorf("%d bytes are stored, and %d count", stored, counted)
			}
		})
	}
}

// sizesOf returns the number of bytes of a ledger as stored, and as it counts.
func sizesOf(t *testing.T, snapshot ledger.Snapshot) (stored, counted int) {
	t.Helper()
	l, err := ledger.Restore(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(specOf(quotav1alpha1.ConsumerRef{}, l.Snapshot()))
	if err != nil {
		t.Fatal(err)
	}
	const listBytes = len(`"observations":[],`) // once for each ledger, in its constant part
	return len(body) - listBytes*min(1, len(snapshot.Observations)), l.Bytes()
}

// fullOf returns a ledger with a lot of everything, all of its texts made of one.
func fullOf(t *testing.T, text string) *ledger.Ledger {
	t.Helper()
	long := func(i, most int) string { return fmt.Sprint(i) + strings.Repeat(text, (most-4)/len(text)) }
	dimensions := func(i int) ledger.Dimensions {
		d, err := ledger.NewDimensions(map[string]string{long(i, 60): long(i, 60), "b": "c"})
		if err != nil {
			return ledger.Dimensions{} // of invalid text
		}
		return d
	}
	selector := func(i int) ledger.Selector {
		s, err := ledger.NewSelector(ledger.Requirement{Key: "region", Operator: ledger.In, Values: []string{long(i, 60), "b"}}, ledger.Requirement{Key: "b", Operator: ledger.Exists})
		if err != nil {
			return ledger.Selector{}
		}
		return s
	}
	claim, err := json.Marshal(map[string]string{"a": long(0, 200)})
	if err != nil {
		t.Fatal(err)
	}
	stored := ledger.Snapshot{Sequence: 1 << 60}
	for i := range 40 {
		resourceType, charge := long(i, 100), ledger.Charge{ResourceType: long(i, 100), Dimensions: dimensions(i), Amount: ledger.AmountMax / 8}
		stored.Grants = append(stored.Grants, ledger.Grant{UID: long(i, 36), Namespace: long(i, 60), Name: long(i, 60), Generation: 1 << 60,
			Allowances: []ledger.Allowance{{ResourceType: resourceType, Selector: selector(i), Amount: ledger.AmountMax}}})
		stored.Observations = append(stored.Observations, ledger.Observation{
			Kind: long(i, 100), Basis: ledger.Basis{Objects: math.MaxInt64, Namespaces: math.MaxInt64, Policies: math.MaxInt64},
			Demands: []ledger.Demand{{ResourceType: resourceType, Dimensions: dimensions(i), Amount: ledger.AmountMax / 8, Objects: 1 << 60}},
		})
		stored.Reservations = append(stored.Reservations,
			ledger.Reservation{Key: "a" + long(i, 200), Sequence: int64(1<<50 + 2*i), ReservedAt: 1 << 60, Charges: []ledger.Charge{charge}, Claim: string(claim)},
			ledger.Reservation{Key: "c" + long(i, 200), Sequence: int64(1<<51 + i), ReservedAt: 1 << 60, Charges: []ledger.Charge{charge},
				Awaits: &ledger.Awaited{Kind: long(i, 100), ID: long(i, 36), After: math.MaxInt64, Namespaces: math.MaxInt64, Policies: math.MaxInt64}})
	}
	l, err := ledger.Restore(stored)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// As many usual reservations as may be in flight fit beside grants and dimension sets.
func TestAllReservationsFit(t *testing.T) {
	l := ledger.New()
	var grants []ledger.Grant
	const project = "compute.example.com/vcpus"
	for i := range 500 {
		grants = append(grants, ledger.Grant{UID: fmt.Sprintf("%036d", i), Namespace: "organization-acme", Name: fmt.Sprintf("project-%d", i), Generation: 1,
			Allowances: []ledger.Allowance{{ResourceType: project, Amount: 1000}}})
	}
	if _, err := l.ReplaceGrants(grants); err != nil {
		t.Fatal(err)
	}
	outline := `{"n":"web-7f9c6d5b4-x2x9z-3f1c2a","ns":"project-web","r":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"default","name":"web-7f9c6d5b4-x2x9z"}}`
	for i := range ReservationsMax {
		r := ledger.Reservation{Key: fmt.Sprintf("deployments/%036d", i), ReservedAt: 1 << 31, Claim: outline,
			Charges: []ledger.Charge{{ResourceType: project, Amount: 4000}, {ResourceType: "compute.example.com/memory", Amount: 4000}}}
		if isFull(l, []ledger.Reservation{r}) {
			t.Fatalf("full after %d reservations, at %d bytes", i, l.Bytes())
		}
		if d := l.ReserveOverdraft(r); d.Code != ledger.Admitted {
			t.Fatalf("%s after %d reservations, at %d bytes", d.Code, i, l.Bytes())
		}
	}
	if r := (ledger.Reservation{Key: "another"}); !isFull(l, []ledger.Reservation{r}) {
		t.Error("more fit than may be in flight")
	}
	t.Log(l.Bytes())
}
