package linearizability

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

const gpu = "compute/gpu"

var acme = quotav1alpha1.ConsumerRef{Kind: "Organization", Name: "acme"}

// platform is several processes on one storage.
type platform struct {
	history
	memory      *storagetest.Memory
	connections []*storagetest.Connection
	stores      []*ledgerstore.Store

	mu     sync.Mutex
	random *rand.Rand
}

func newPlatform(ctx context.Context, t *testing.T, seed uint64, processes int) *platform {
	p := &platform{
		memory: storagetest.New(),
		random: rand.New(rand.NewPCG(seed, 0)),
	}
	for range processes {
		connection := p.memory.Connect(p.fault)
		p.connections = append(p.connections, connection)
		p.stores = append(p.stores, ledgerstore.New(ctx, connection))
	}
	setup := ledgerstore.New(ctx, p.memory.Connect(nil))
	if err := setup.SetGrants(ctx, acme, limitOf(initialLimit)); err != nil {
		t.Fatal(err)
	}
	return p
}

// roll returns a random number below n.
func (p *platform) roll(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.IntN(n)
}

// fault makes every call take a random time, and one in six go wrong.
func (p *platform) fault(ctx context.Context, _ storagetest.Call) storagetest.Fault {
	select {
	case <-time.After(time.Duration(p.roll(2000)) * time.Microsecond):
	case <-ctx.Done():
	}
	if p.roll(8) == 0 {
		p.connections[p.roll(len(p.connections))].Deliver()
	}
	if p.roll(6) > 0 {
		return storagetest.None
	}
	faults := []storagetest.Fault{storagetest.Lost, storagetest.Overtaken, storagetest.Unanswered, storagetest.Late}
	return faults[p.roll(len(faults))]
}

func (p *platform) anyStore() *ledgerstore.Store { return p.stores[p.roll(len(p.stores))] }

// perform carries out an operation on a process's store.
func (p *platform) perform(ctx context.Context, client int, store *ledgerstore.Store, in input) output {
	return p.record(client, in, func(out *output) error {
		switch in.kind {
		case reserve:
			decision, err := storagetest.Reserve(ctx, store, acme, ledger.Reservation{Key: in.key, Charges: chargesOf(in.amount)})
			*out = output{admitted: decision.Code == ledger.Admitted, sequence: decision.Sequence}
			return err
		case cancel:
			return store.Cancel(ctx, acme, in.key, in.sequence)
		case setLimit:
			return store.SetGrants(ctx, acme, limitOf(in.amount))
		default:
			return store.View(ctx, acme, func(l *ledger.Ledger) { out.seen = totalsOf(l) })
		}
	})
}

func totalsOf(l *ledger.Ledger) totals {
	account := l.Account(gpu)
	return totals{int64(account.Limit), int64(account.Reserved), l.Sequence()}
}

func chargesOf(amount int64) []ledger.Charge {
	return []ledger.Charge{{ResourceType: gpu, Amount: ledger.Amount(amount)}}
}

func limitOf(amount int64) func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
	return func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
		return []ledger.Grant{{UID: "g", Name: "g", Allowances: []ledger.Allowance{{ResourceType: gpu, Amount: ledger.Amount(amount)}}}}, nil
	}
}
