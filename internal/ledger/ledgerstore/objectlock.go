package ledgerstore

import (
	"context"
	"sync"
)

// objectLocks are held while what the claims of an object hold is being changed. The zero value is
// ready to use.
type objectLocks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when the lock is given back
}

// LockObject waits until nobody in this process changes what the claims of an object hold, and
// keeps others from it until unlock is called. It fails if ctx ends first.
func (s *Store) LockObject(ctx context.Context, objectUID string) (unlock func(), err error) {
	l := &s.locks
	for {
		l.mu.Lock()
		busy, taken := l.held[objectUID]
		if !taken {
			if l.held == nil {
				l.held = map[string]chan struct{}{}
			}
			mine := make(chan struct{})
			l.held[objectUID] = mine
			l.mu.Unlock()
			return func() { l.unlock(objectUID, mine) }, nil
		}
		l.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *objectLocks) unlock(objectUID string, mine chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, objectUID)
	close(mine)
}
