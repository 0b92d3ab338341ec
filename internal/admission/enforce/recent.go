package enforce

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/catalog"
)

// recent remembers objects for a while, each with the revision of the catalog that it was reviewed
// by.
type recent struct {
	// least is the least time for which an object is remembered.
	least time.Duration

	mu              sync.Mutex
	since           time.Time // of current
	current, before map[types.UID]int64
}

func (r *recent) add(uid types.UID, revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turnLocked()
	r.current[uid] = revision
}

// drop forgets an object.
func (r *recent) drop(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.current, uid)
	delete(r.before, uid)
}

// revisionOf returns 0 for objects that are not remembered.
func (r *recent) revisionOf(uid types.UID) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turnLocked()
	return max(r.current[uid], r.before[uid])
}

// turnLocked begins another set when the current one is full of time.
func (r *recent) turnLocked() {
	switch age := time.Since(r.since); {
	case r.current == nil || age > 2*r.least:
		r.before, r.current, r.since = nil, map[types.UID]int64{}, time.Now()
	case age > r.least:
		r.before, r.current, r.since = r.current, map[types.UID]int64{}, time.Now()
	}
}

// Reviewed tells whether this process has decided within the last minute or so what an object that
// was created costs by a policy.
func (h *Handler) Reviewed(uid types.UID, p *catalog.Policy) bool {
	return h.reviewed.revisionOf(uid) >= p.Entered
}

// reviewedPath begins the path by which replicas ask each other what [Handler.Reviewed] tells.
const reviewedPath = "/reviewed/"

// ReviewedPath is the path at which another replica says which objects it has decided by a policy.
func ReviewedPath(p *catalog.Policy) string {
	return reviewedPath + p.Name + "/" + strconv.FormatInt(p.Generation, 10)
}

// ReviewedObjects is the request to [ReviewedPath], and its answer: those of the objects that the replica has decided.
type ReviewedObjects struct {
	UIDs []types.UID `json:"uids"`
}

// reviewedMax bounds the body of such a request, in bytes.
const reviewedMax = 1 << 20

// ServeReviewed answers other replicas. One that knows the policy in another generation has decided nothing.
func (h *Handler) ServeReviewed() (pattern string, handler http.Handler) {
	return "POST " + reviewedPath + "{policy}/{generation}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked, reviewed ReviewedObjects
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, reviewedMax)).Decode(&asked); err != nil {
			http.Error(w, "the objects cannot be read", http.StatusBadRequest)
			return
		}
		p := h.Catalog.Policy(r.PathValue("policy"))
		for _, uid := range asked.UIDs {
			if p != nil && strconv.FormatInt(p.Generation, 10) == r.PathValue("generation") && h.Reviewed(uid, p) {
				reviewed.UIDs = append(reviewed.UIDs, uid)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reviewed) // whoever asked has gone
	})
}
