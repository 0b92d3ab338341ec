package storagetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Call names a call to storage.
type Call string

// The calls, one for each method of [ledgerstore.Storage].
const (
	Read           Call = "read"
	Write          Call = "write"
	CurrentVersion Call = "current version"
)

// Fault is a failure of a call.
type Fault int

// The faults. Faults other than Lost affect only writes.
const (
	None Fault = iota
	// Lost: the call fails before it reaches storage.
	Lost
	// Overtaken: another process stores the same ledger just before this write.
	Overtaken
	// Unanswered: the write takes effect, but the connection loses its answer.
	Unanswered
	// Late: the call fails, and the write reaches storage only with [Connection.Deliver].
	Late
	// Rejected: storage rejects the write for good.
	Rejected
)

// errFault is the error of a failed call with an unknown outcome.
var errFault = errors.New("the connection to storage broke")

// Connection is the connection of one process to a [Memory]. It is safe for concurrent use.
type Connection struct {
	memory *Memory
	before func(context.Context, Call) Fault
	closed atomic.Bool

	mu    sync.Mutex
	calls map[Call]int
	late  []func()
}

var _ ledgerstore.Storage = (*Connection)(nil)

// Connect returns a connection. If before is not nil, each call starts with it and suffers the fault it returns. It may
// block, to delay the call.
func (m *Memory) Connect(before func(context.Context, Call) Fault) *Connection {
	return &Connection{memory: m, before: before, calls: map[Call]int{}}
}

// Calls returns the number of calls of one kind.
func (c *Connection) Calls(call Call) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[call]
}

// Close breaks the connection: every call fails from now on. Current calls fail too, but they may have taken effect.
func (c *Connection) Close() { c.closed.Store(true) }

// Deliver lets all late writes reach storage now, the oldest first.
func (c *Connection) Deliver() {
	c.mu.Lock()
	late := c.late
	c.late = nil
	c.mu.Unlock()
	for _, write := range late {
		write()
	}
}

// Read implements [ledgerstore.Storage].
func (c *Connection) Read(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (ledger.Snapshot, ledgerstore.Version, error) {
	if fault, err := c.begin(ctx, Read); err != nil || fault == Lost {
		return ledger.Snapshot{}, "", errors.Join(errFault, err)
	}
	stored := c.memory.read(consumer)
	return stored.Snapshot, stored.Version, c.end()
}

// CurrentVersion implements [ledgerstore.Storage].
func (c *Connection) CurrentVersion(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (ledgerstore.Version, error) {
	if fault, err := c.begin(ctx, CurrentVersion); err != nil || fault == Lost {
		return "", errors.Join(errFault, err)
	}
	return c.memory.read(consumer).Version, c.end()
}

// Write implements [ledgerstore.Storage].
func (c *Connection) Write(ctx context.Context, consumer quotav1alpha1.ConsumerRef, snapshot ledger.Snapshot, expected ledgerstore.Version) (ledgerstore.Version, error) {
	fault, err := c.begin(ctx, Write)
	switch {
	case err != nil || fault == Lost:
		return "", errors.Join(errFault, err)
	case fault == Rejected:
		return "", &ledgerstore.RejectedError{Err: errors.New("storage does not take it")}
	case c.memory.Accepts != nil && !c.memory.Accepts(snapshot):
		return "", &ledgerstore.RejectedError{Err: errors.New("etcdserver: request is too large"), ForContent: true}
	case fault == Late:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.late = append(c.late, func() { c.memory.write(consumer, snapshot, expected) })
		return "", errFault
	case fault == Overtaken:
		c.memory.Touch(consumer)
	}
	version, ok := c.memory.write(consumer, snapshot, expected)
	switch {
	case c.end() != nil || fault == Unanswered:
		return "", errFault
	case !ok:
		return "", ledgerstore.ErrConflict
	default:
		return version, nil
	}
}

// begin counts a call and returns its fault.
func (c *Connection) begin(ctx context.Context, call Call) (Fault, error) {
	c.mu.Lock()
	c.calls[call]++
	c.mu.Unlock()
	fault := None
	if c.before != nil {
		fault = c.before(ctx, call)
	}
	if c.closed.Load() {
		return Lost, nil
	}
	return fault, ctx.Err()
}

// end returns the error of an executed call: after Close the connection loses its answer.
func (c *Connection) end() error {
	if c.closed.Load() {
		return errFault
	}
	return nil
}
