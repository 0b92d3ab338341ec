// Package reviewed remembers which objects the webhook has decided when they were created, and answers and asks the other
// replicas about them. Adoption leaves these objects alone: what they cost is known.
package reviewed

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/catalog"
)

// Objects are the objects that this replica has decided lately. Create them with [New].
type Objects struct {
	catalog *catalog.Catalog
	log     logr.Logger
	// least is the least time for which an object is remembered.
	retention time.Duration

	mu    sync.Mutex
	since time.Time // of current
	// current and before hold, by object, the revision of the catalog by which it was decided.
	current, before map[types.UID]int64
}

// New returns an empty memory, which remembers each object for at least some time.
func New(catalog *catalog.Catalog, least time.Duration, log logr.Logger) *Objects {
	return &Objects{catalog: catalog, retention: least, log: log}
}

// Add remembers that an object was decided by all policies of a revision of the catalog.
func (o *Objects) Add(uid types.UID, revision int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rotateLocked()
	o.current[uid] = revision
}

// Forget forgets an object.
func (o *Objects) Forget(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.current, uid)
	delete(o.before, uid)
}

// Has reports whether this replica has decided, not long ago, what an object costs by a policy.
func (o *Objects) Has(uid types.UID, p *catalog.Policy) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rotateLocked()
	return max(o.current[uid], o.before[uid]) >= p.Revision
}

// rotateLocked begins another set when the current one is full of time.
func (o *Objects) rotateLocked() {
	switch age := time.Since(o.since); {
	case o.current == nil || age > 2*o.retention:
		o.before, o.current, o.since = nil, map[types.UID]int64{}, time.Now()
	case age > o.retention:
		o.before, o.current, o.since = o.current, map[types.UID]int64{}, time.Now()
	}
}

// path begins the path by which replicas ask each other.
const path = "/reviewed/"

// message is a question to another replica, and its answer: those of the objects that it has decided.
type message struct {
	UIDs []types.UID `json:"uids"`
}

// messageMax bounds a question, in bytes.
const messageMax = 1 << 20

// Handler answers other replicas. A replica that knows the policy in another generation has decided nothing.
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
		_ = json.NewEncoder(w).Encode(answer) // whoever asked has gone
	})
}

// Replicas are the other replicas.
type Replicas interface {
	// AskAll sends a question to each and returns the answers of those that give one.
	AskAll(ctx context.Context, path string, question []byte) [][]byte
}

// AskOthers asks the other replicas which objects they have decided by a policy, and returns those that one of them has. A
// replica that does not answer has decided nothing.
func (o *Objects) AskOthers(ctx context.Context, others Replicas, objects []types.UID, p *catalog.Policy) []types.UID {
	question, err := json.Marshal(message{UIDs: objects})
	if err != nil {
		return nil
	}
	var decided []types.UID
	for _, raw := range others.AskAll(ctx, path+p.Name+"/"+strconv.FormatInt(p.Generation, 10), question) {
		var answer message
		if err := json.Unmarshal(raw, &answer); err != nil {
			o.log.Error(err, "read which objects another replica has reviewed")
			continue
		}
		decided = append(decided, answer.UIDs...)
	}
	return decided
}
