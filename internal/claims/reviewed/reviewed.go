// Package reviewed remembers the objects decided by the webhook at their creation, and exchanges them with other
// replicas. Adoption skips these objects, because they have their charge, except for policies that charge an object
// only once it exists. Package enforce adds objects, and the adoption controller looks them up through an interface.
package reviewed

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
)

// Objects are the recently decided objects of this replica. Create it with [New].
type Objects struct {
	catalog *catalog.Catalog
	log     logr.Logger
	// retention is the minimum time in memory for an object.
	retention time.Duration

	mu              sync.Mutex
	since           time.Time // of current
	current, before map[types.UID]decision
}

// decision is the decision on one object.
type decision struct {
	// revision is the catalog's revision at the decision.
	revision int64
	// uncharged are the label values of the policies that have yet to charge the object.
	uncharged []string
}

func (d decision) isBy(p *catalog.Policy) bool {
	return d.revision >= p.Revision && !slices.Contains(d.uncharged, claims.LabelValue(p.Name))
}

// New returns an empty set with a minimum retention for each object.
func New(catalog *catalog.Catalog, least time.Duration, log logr.Logger) *Objects {
	return &Objects{catalog: catalog, retention: least, log: log}
}

// Add records the decision of all policies of a catalog's revision on an object. The policies with the label values
// uncharged charge the object only once it exists. Whoever does that may fail or die, so adoption must not skip the
// object for these policies.
func (o *Objects) Add(uid types.UID, revision int64, uncharged ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rotateLocked()
	o.current[uid] = decision{revision, uncharged}
}

// Forget removes an object.
func (o *Objects) Forget(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.current, uid)
	delete(o.before, uid)
}

// Has reports whether this replica has recently decided an object's demand under a policy, and charged it.
func (o *Objects) Has(uid types.UID, p *catalog.Policy) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rotateLocked()
	return o.current[uid].isBy(p) || o.before[uid].isBy(p)
}

// rotateLocked replaces the current set once it is older than the retention.
func (o *Objects) rotateLocked() {
	switch age := time.Since(o.since); {
	case o.current == nil || age > 2*o.retention:
		o.before, o.current, o.since = nil, map[types.UID]decision{}, time.Now()
	case age > o.retention:
		o.before, o.current, o.since = o.current, map[types.UID]decision{}, time.Now()
	}
}

// path is the prefix of the path for requests between replicas.
const path = "/reviewed/"

// message is a request to another replica, and its answer: the objects decided by the replica.
type message struct {
	UIDs []types.UID `json:"uids"`
}

// messageMax bounds a request, in bytes.
const messageMax = 1 << 20

// Handler answers other replicas. A replica with another generation of the policy has decided none of the objects.
func (o *Objects) Handler() (pattern string, handler http.Handler) {
	return "POST " + path + "{policy}/{generation}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var question, answer message
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, messageMax)).Decode(&question); err != nil {
			http.Error(w, "the objects cannot be read", http.StatusBadRequest)
			return
		}
		p := o.catalog.Policy(r.PathValue("policy"))
		for _, uid := range question.UIDs {
			if p != nil && strconv.FormatInt(p.Generation, 10) == r.PathValue("generation") && o.Has(uid, p) {
				answer.UIDs = append(answer.UIDs, uid)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the other replica has disconnected
	})
}

// Replicas are the other replicas.
type Replicas interface {
	// AskAll sends a request to each and returns the arriving answers.
	AskAll(ctx context.Context, path string, question []byte) [][]byte
}

// AskOthers returns the objects that other replicas have decided by a policy. A replica without an answer counts as
// having decided none.
func (o *Objects) AskOthers(ctx context.Context, others Replicas, objects []types.UID, p *catalog.Policy) []types.UID {
	question, err := json.Marshal(message{UIDs: objects})
	if err != nil {
		return nil
	}
	var decided []types.UID
	for _, raw := range others.AskAll(ctx, path+p.Name+"/"+strconv.FormatInt(p.Generation, 10), question) {
		var answer message
		if err := json.Unmarshal(raw, &answer); err != nil {
			o.log.Error(err, "read the objects reviewed by another replica")
			continue
		}
		decided = append(decided, answer.UIDs...)
	}
	return decided
}
