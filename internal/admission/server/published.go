package server

import (
	"context"
	"sync"
	"time"
)

// publishedInterval is how often it is looked whether an authority is published.
const publishedInterval = 50 * time.Millisecond

// published remembers that the authority of the certificate is.
type published struct {
	mu          sync.Mutex
	isPublished bool
	checkedAt   time.Time
}

// IsPublished reports whether API servers are told to check the webhooks by the authority of the certificate that this
// replica serves. One that starts after the Secret was given another authority serves by that at once, and the leader may
// not have published it yet.
func (s *Server) IsPublished(ctx context.Context) bool {
	p := &s.published
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isPublished || time.Since(p.checkedAt) < publishedInterval {
		return p.isPublished
	}
	p.checkedAt = time.Now()
	bundles, err := s.dependencies.Published.Authorities(ctx)
	if err != nil {
		s.dependencies.Log.V(1).Info("will look again", "err", err.Error())
		return false
	}
	for _, bundle := range bundles {
		if !s.Certificates.VerifiedBy(bundle) {
			return false
		}
	}
	p.isPublished = true
	return true
}
