package adoption

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/catalog"
)

// queryMax is how many objects the other replicas are asked about at a time.
const queryMax = 500

// peerReviews are the answers of the other replicas about objects that wait to be looked at. The zero value has none.
type peerReviews struct {
	// asking is held during a question, so that all that wait share the answer.
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

// forget drops the answers about an object that was looked at.
func (e *peerReviews) forget(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.answers, uid)
}

// isReviewedByPeer reports whether another replica has decided what an object costs by a policy. It asks about the
// other objects of the kind that wait as well: where one was not reviewed here there are many.
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

// due returns up to max other objects of the same kind that have waited so long that this replica would know claims which
// other replicas made for them.
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
