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
	// querying is held during a query, so that all waiting goroutines share the answer.
	querying sync.Mutex

	mu      sync.Mutex
	answers map[types.UID]map[*catalog.Policy]bool
}

func (e *peerReviews) lookup(uid types.UID, p *catalog.Policy) (isReviewed, isKnown bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	isReviewed, isKnown = e.answers[uid][p]
	return isReviewed, isKnown
}

func (e *peerReviews) record(objects, reviewed []types.UID, p *catalog.Policy) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answers == nil {
		e.answers = map[types.UID]map[*catalog.Policy]bool{}
	}
	for _, uid := range objects {
		if e.answers[uid] == nil {
			e.answers[uid] = map[*catalog.Policy]bool{}
		}
		e.answers[uid][p] = false
	}
	for _, uid := range reviewed {
		if of := e.answers[uid]; of != nil {
			of[p] = true
		}
	}
}

// forget drops the answers about an inspected object.
func (e *peerReviews) forget(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.answers, uid)
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

// waitingObjects returns up to max other objects of the same kind that have waited long enough for this replica to know
// the claims of other replicas for them.
func (u *backlog) waitingObjects(of object, max int) []types.UID {
	u.objectsMu.Lock()
	defer u.objectsMu.Unlock()
	var due []types.UID
	for o, seen := range u.objects {
		if len(due) == max {
			break
		}
		if o != of && o.kind == of.kind && time.Since(seen) >= reviewTimeout {
			due = append(due, o.uid)
		}
	}
	return due
}
