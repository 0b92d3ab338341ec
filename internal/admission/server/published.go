package server

import (
	"context"
	"sync"
	"time"
)

// publishedInterval is the minimum time between checks for a published authority.
const publishedInterval = 50 * time.Millisecond

// published caches whether API servers have the authority of the served certificate.
type published struct {
	mu          sync.Mutex
	isPublished bool
	checkedAt   time.Time
}

// IsPublished reports whether API servers verify the webhooks by the authority of this replica's certificate. A
// replica may start after the Secret got another authority. It serves by it at once, but the leader may not have
// published it yet.
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
		s.dependencies.Log.V(1).Info("cannot read the published authorities, will try again", "err", err.Error())
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
