package ledgerstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/inventory"
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

// versions are those of the objects of all processes. So an observation is never behind that of another process.
var versions atomic.Int64

func nextVersion() ledger.Version { return ledger.Version(100 + versions.Add(1)) }

// use has an object demand an amount, and the ledger observe that.
func (p *process) use(t testing.TB, uid string, amount ledger.Amount) {
	t.Helper()
	p.Inventory.(*inventoryOf).show(widgets, uid, nextVersion(), amount)
	p.observed(t, uid)
}

// free deletes an object, and has the ledger observe that.
func (p *process) free(t testing.TB, uid string) {
	t.Helper()
	p.Inventory.(*inventoryOf).kind(widgets).Delete(inventory.Object{UID: types.UID(uid), Version: nextVersion()})
	p.observed(t, uid)
}

func (p *process) observed(t testing.TB, uid string) {
	t.Helper()
	p.ObjectChanged(types.UID(uid), []quotav1alpha1.ConsumerRef{acme})
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

// summary is the part of a stored ledger for comparisons.
type summary struct {
	Limit, Used, Reserved ledger.Amount
	Claims                int64
	Keys                  []string
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
	s := summary{Limit: account.Limit, Used: account.Used, Reserved: account.Reserved, Claims: account.Claims}
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
