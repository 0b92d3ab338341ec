package adoption

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/catalog"
)

// queryMax is how many objects one query to the other replicas names.
const queryMax = 500

// peerReviews holds the answers of other replicas about waiting objects. The zero value is empty.
type peerReviews struct {
	// Hold querying during a query: then all waiting goroutines share the answer.
	querying sync.Mutex

	mu      sync.Mutex
	answers map[types.UID]map[*catalog.Policy]bool
}

func (r *peerReviews) lookup(uid types.UID, p *catalog.Policy) (isReviewed, isKnown bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	isReviewed, isKnown = r.answers[uid][p]
	return isReviewed, isKnown
}

func (r *peerReviews) record(objects, reviewed []types.UID, p *catalog.Policy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers == nil {
		r.answers = map[types.UID]map[*catalog.Policy]bool{}
	}
	for _, uid := range objects {
		if r.answers[uid] == nil {
			r.answers[uid] = map[*catalog.Policy]bool{}
		}
		r.answers[uid][p] = false
	}
	for _, uid := range reviewed {
		if of := r.answers[uid]; of != nil {
			of[p] = true
		}
	}
}

// forget drops the answers about an inspected object.
func (r *peerReviews) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.answers, uid)
}

// isReviewedByPeer reports whether another replica has evaluated a policy for an object. The query includes the other
// waiting objects of the kind, because unreviewed objects come in groups.
func (c *Controller) isReviewedByPeer(ctx context.Context, o object, p *catalog.Policy) bool {
	if isReviewed, isKnown := c.peerReviews.lookup(o.uid, p); isKnown {
		return isReviewed
	}
	c.peerReviews.querying.Lock()
	defer c.peerReviews.querying.Unlock()
	if isReviewed, isKnown := c.peerReviews.lookup(o.uid, p); isKnown {
		return isReviewed
	}
	objects := []types.UID{o.uid}
	for _, uid := range c.backlog.waitingObjects(o, queryMax-1) {
		if _, isKnown := c.peerReviews.lookup(uid, p); !isKnown {
			objects = append(objects, uid)
		}
	}
	c.peerReviews.record(objects, c.Reviews.ByPeers(ctx, objects, p), p)
	isReviewed, _ := c.peerReviews.lookup(o.uid, p)
	return isReviewed
}

// waitingObjects returns up to max other objects of the same kind. They have waited long enough for this replica to
// know the claims of other replicas for them.
func (b *backlog) waitingObjects(of object, max int) []types.UID {
	b.objectsMu.Lock()
	defer b.objectsMu.Unlock()
	var due []types.UID
	for o, seen := range b.objects {
		if len(due) == max {
			break
		}
		if o != of && o.kind == of.kind && time.Since(seen) >= reviewTimeout {
			due = append(due, o.uid)
		}
	}
	return due
}
