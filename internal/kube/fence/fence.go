// Package fence keeps a paused leader from late writes: another replica may lead by then, and may have given away what
// the leader found free. Package operator puts a fence around the lock of the leader.
package fence

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrLost means that another replica may lead.
var ErrLost = errors.New("this replica has not renewed its lead in time, and another one may lead")

// Lock is the lock of a leader. It notes when the lead was renewed. It is safe for concurrent use.
type Lock struct {
	resourcelock.Interface
	// lasts is how long after a renewal the lead is certain. It is shorter than the duration of the Lease, and so leaves
	// time for the write after a check.
	lasts time.Duration

	mu      sync.Mutex
	renewed time.Time // before the request of the latest renewal; zero without the lead
}

// Around returns a lock with a fence. The lead is certain for a while after each renewal: give the time after which the
// leader itself gives up.
func Around(lock resourcelock.Interface, lasts time.Duration) *Lock {
	return &Lock{Interface: lock, lasts: lasts}
}

// Create implements [resourcelock.Interface].
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	begin := time.Now()
	return l.note(begin, record, l.Interface.Create(ctx, record))
}

// Update implements [resourcelock.Interface].
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	begin := time.Now()
	return l.note(begin, record, l.Interface.Update(ctx, record))
}

// note records a successful write of the lock. A released one has no holder.
func (l *Lock) note(begin time.Time, record resourcelock.LeaderElectionRecord, err error) error {
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed = begin; record.HolderIdentity != l.Identity() {
		l.renewed = time.Time{}
	}
	return nil
}

// Check returns [ErrLost] unless this replica certainly leads. The monotonic clock may stand still while the machine
// sleeps, and the other one may jump: both have to agree. A nil lock is that of a replica without others.
func (l *Lock) Check() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	wall := now.Round(0).Sub(l.renewed.Round(0)) // without the monotonic clock
	if l.renewed.IsZero() || now.Sub(l.renewed) >= l.lasts || wall < 0 || wall >= l.lasts {
		return ErrLost
	}
	return nil
}
