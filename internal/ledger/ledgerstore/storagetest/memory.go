// Package storagetest keeps ledgers in memory for tests, behind connections with all faults between a process and a
// real API server. Only tests import it.
package storagetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Memory is linearizable storage without failures. Processes reach it through connections. It keeps every stored state.
type Memory struct {
	// Accepts, if set, reports whether storage accepts a ledger, such as by its size. Set it before first use.
	Accepts func(ledger.Snapshot) bool

	mu        sync.Mutex
	version   uint64 // of the latest write for any consumer
	revisions map[quotav1alpha1.ConsumerRef][]Revision
}

// Revision is one stored state of a consumer's ledger.
type Revision struct {
	Version  ledgerstore.Version
	Snapshot ledger.Snapshot
}

// New returns empty storage.
func New() *Memory {
	return &Memory{revisions: map[quotav1alpha1.ConsumerRef][]Revision{}}
}

// Revisions returns every state stored for a consumer, the oldest first.
func (m *Memory) Revisions(consumer quotav1alpha1.ConsumerRef) []Revision {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.revisions[consumer])
}

// Snapshot returns the stored ledger of a consumer.
func (m *Memory) Snapshot(consumer quotav1alpha1.ConsumerRef) ledger.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest(consumer).Snapshot
}

// Touch stores the same ledger again, like another process after a change of something else.
func (m *Memory) Touch(consumer quotav1alpha1.ConsumerRef) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store(consumer, m.latest(consumer).Snapshot)
}

// Fill stores demand until the ledger of a consumer has no room, like another process. The returned function stores the
// ledger as it was before.
func (m *Memory) Fill(consumer quotav1alpha1.ConsumerRef) (empty func() Revision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.latest(consumer).Snapshot
	full := ledger.Observation{Kind: "full", Basis: ledger.Basis{Objects: 1}}
	for size := 0; size < ledger.BytesMax; size += ledger.ResourceTypeBytesMax {
		full.Demands = append(full.Demands, ledger.Demand{ResourceType: fmt.Sprintf("%0*d", ledger.ResourceTypeBytesMax, size), Amount: 1, Objects: 1})
	}
	after := before
	after.Observations = append(slices.Clone(before.Observations), full)
	m.store(consumer, after)
	return func() Revision {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.store(consumer, before)
		return m.latest(consumer)
	}
}

// write stores a ledger if the version is the expected one, and reports whether it was.
func (m *Memory) write(consumer quotav1alpha1.ConsumerRef, snapshot ledger.Snapshot, expected ledgerstore.Version) (ledgerstore.Version, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.latest(consumer).Version != expected {
		return "", false
	}
	return m.store(consumer, snapshot), true
}

func (m *Memory) read(consumer quotav1alpha1.ConsumerRef) Revision {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest(consumer)
}

// Call latest and store with m.mu held.
func (m *Memory) latest(consumer quotav1alpha1.ConsumerRef) Revision {
	if stored := m.revisions[consumer]; len(stored) > 0 {
		return stored[len(stored)-1]
	}
	return Revision{}
}

func (m *Memory) store(consumer quotav1alpha1.ConsumerRef, snapshot ledger.Snapshot) ledgerstore.Version {
	m.version++
	version := ledgerstore.Version(strconv.FormatUint(m.version, 10))
	m.revisions[consumer] = append(m.revisions[consumer], Revision{Version: version, Snapshot: snapshot})
	return version
}

// Store decides requests, like [ledgerstore.Store].
type Store interface {
	Apply(context.Context, quotav1alpha1.ConsumerRef, ledgerstore.Request) (ledgerstore.Outcome, error)
}

// Reserve lets a store decide one reservation.
func Reserve(ctx context.Context, store Store, consumer quotav1alpha1.ConsumerRef, r ledger.Reservation) (ledger.Decision, error) {
	outcome, err := store.Apply(ctx, consumer, ledgerstore.Request{Reservations: []ledger.Reservation{r}})
	return outcome.Single(), err
}
