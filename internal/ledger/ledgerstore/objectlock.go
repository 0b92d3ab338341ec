package ledgerstore

import (
	"context"
	"sync"
)

// objectLocks serialize the changes to the claims of an object. The zero value is ready to use.
type objectLocks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed at unlock
}

// LockObject waits for the lock on the claims of an object in this process. The caller holds it until it calls unlock.
// LockObject fails if ctx ends first.
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
