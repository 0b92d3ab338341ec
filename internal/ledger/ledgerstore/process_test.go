package ledgerstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

const gpu = "compute/gpu"

var acme = quotav1alpha1.ConsumerRef{APIGroup: "platform", Kind: "Organization", Name: "acme"}

// process is one of several processes on one storage.
type process struct {
	*ledgerstore.Store
	*storagetest.Connection
	stop context.CancelFunc
}

// start starts a process whose inventory shows no objects. It ends with the test. faults may be nil.
func start(t testing.TB, memory *storagetest.Memory, faults func(context.Context, storagetest.Call) storagetest.Fault) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	connection := memory.Connect(faults)
	store := ledgerstore.New(ctx, connection)
	store.Inventory = newInventory(widgets)
	return &process{Store: store, Connection: connection, stop: cancel}
}

// script yields the given faults for the first writes and none for the others.
func script(faults ...storagetest.Fault) func(context.Context, storagetest.Call) storagetest.Fault {
	return func(_ context.Context, call storagetest.Call) storagetest.Fault {
		if call != storagetest.Write || len(faults) == 0 {
			return storagetest.None
		}
		fault := faults[0]
		faults = faults[1:]
		return fault
	}
}

// gate, while shut, blocks writes.
type gate chan struct{}

func (g gate) faults(ctx context.Context, call storagetest.Call) storagetest.Fault {
	if call == storagetest.Write {
		select {
		case <-g:
		case <-ctx.Done():
		}
	}
	return storagetest.None
}

// limit sets the limit of acme for gpu.
func (p *process) limit(t testing.TB, amount ledger.Amount) {
	t.Helper()
	err := p.SetGrants(t.Context(), acme, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) { return grants(amount), nil })
	if err != nil {
		t.Fatalf("set the limit: %v", err)
	}
}

func grants(amount ledger.Amount) []ledger.Grant {
	return []ledger.Grant{{UID: "g", Name: "g", Generation: 1, Allowances: []ledger.Allowance{{ResourceType: gpu, Amount: amount}}}}
}

func charges(amount ledger.Amount) []ledger.Charge {
	return []ledger.Charge{{ResourceType: gpu, Amount: amount}}
}

func reservation(key string, amount ledger.Amount) ledger.Reservation {
	return ledger.Reservation{Key: key, Charges: charges(amount), Claim: "claim of " + key}
}

// awaiting is the reservation of a request to create an object that counts. Its key is like p/uid.
func awaiting(key string, amount ledger.Amount) ledger.Reservation {
	r := reservation(key, amount)
	r.Awaits = &ledger.Awaited{Kind: widgets, ID: ledgerstore.ObjectUID(key), Policies: 1}
	return r
}

// reserve reserves and fails the test on an error.
func (p *process) reserve(t testing.TB, key string, amount ledger.Amount) ledger.Decision {
	t.Helper()
	decision, err := storagetest.Reserve(t.Context(), p, acme, reservation(key, amount))
	if err != nil {
		t.Fatalf("reserve %s: %v", key, err)
	}
	return decision
}

// use makes a granted and settled claim.
func (p *process) use(t testing.TB, key string, amount ledger.Amount) {
	t.Helper()
	if decision := p.reserve(t, key, amount); decision.Code != ledger.Admitted {
		t.Fatalf("reserve %s: %s", key, decision.Code)
	}
	p.Settle(acme, key, 0)
	p.flush(t)
}

// look reads the ledger, unless the process has the stored version.
func (p *process) look(t testing.TB) {
	t.Helper()
	if err := p.View(t.Context(), acme, func(*ledger.Ledger) {}); err != nil {
		t.Fatalf("view: %v", err)
	}
}

// flush commits housekeeping.
func (p *process) flush(t testing.TB) {
	t.Helper()
	if err := p.Flush(t.Context()); err != nil {
		t.Fatalf("flush: %v", err)
	}
}

// release releases an existing claim. It returns how often the store asked whether the claim exists.
func (p *process) release(t testing.TB, h ledgerstore.ClaimCharges) (drifted bool, asked int) {
	t.Helper()
	drifted, err := p.Release(t.Context(), acme, h.ClaimUID, func(context.Context) (*ledgerstore.ClaimCharges, error) {
		asked++
		return &h, nil
	})
	if err != nil {
		t.Fatalf("release %s: %v", h.ClaimUID, err)
	}
	return drifted, asked
}

// summary is the part of a stored ledger for comparisons.
type summary struct {
	Limit, Used, Reserved ledger.Amount
	Claims                int64
	Keys, Released        []string
}

func stored(t testing.TB, memory *storagetest.Memory) summary {
	t.Helper()
	return summarize(t, memory.Snapshot(acme))
}

func summarize(t testing.TB, stored ledger.Snapshot) summary {
	t.Helper()
	restored, err := ledger.Restore(stored)
	if err != nil {
		t.Fatalf("stored ledger: %v", err)
	}
	account := restored.Account(gpu)
	s := summary{Limit: account.Limit, Used: account.Used, Reserved: account.Reserved, Claims: account.Claims, Released: stored.Released}
	for _, r := range stored.Reservations {
		s.Keys = append(s.Keys, r.Key)
	}
	return s
}

func expect(t testing.TB, reason string, memory *storagetest.Memory, want summary) {
	t.Helper()
	if diff := cmp.Diff(want, stored(t, memory)); diff != "" {
		t.Errorf("%s: the stored ledger (-want +got):\n%s", reason, diff)
	}
}

func keys(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s/%03d", prefix, i)
	}
	return all
}
