// Package recorder reads the history of a real etcd for package history.
package recorder

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/wait"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/history"
)

// stored is where an API server keeps the kinds of Bursar in etcd.
const stored = "/registry/" + quotav1alpha1.GroupName + "/"

// timeout bounds the wait for a recorder to see everything in storage.
const timeout = time.Minute

// Recorder reads the history of ledgers and claims from etcd itself, where none of Bursar's processes nor
// an API server's cache comes between.
type Recorder struct {
	t    testing.TB
	etcd *clientv3.Client

	mu       sync.Mutex
	checker  *history.Checker
	revision int64
	count    int
}

// Start follows the history from its beginning, for the time of a test. It outlives the death and return of etcd. Do
// not compact revisions before the recorder has read them, see [Recorder.Revision].
func Start(t testing.TB, etcd *clientv3.Client) *Recorder {
	r := &Recorder{t: t, etcd: etcd, checker: history.NewChecker()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		for response := range etcd.Watch(ctx, stored, clientv3.WithPrefix(), clientv3.WithRev(1)) {
			if err := response.Err(); err != nil && ctx.Err() == nil {
				t.Errorf("follow the history in etcd: %v", err)
				return
			}
			r.mu.Lock()
			for _, event := range response.Events {
				r.see(event)
			}
			r.mu.Unlock()
		}
	}()
	return r
}

func (r *Recorder) see(event *clientv3.Event) {
	r.revision = event.Kv.ModRevision
	ledgers := quotav1alpha1.GroupName + "/consumerledgers/"
	var err error
	switch key := string(event.Kv.Key); {
	case strings.Contains(key, ledgers) && event.Type == clientv3.EventTypeDelete:
		err = fmt.Errorf("the ledger %s is deleted", path.Base(key))
	case strings.Contains(key, ledgers):
		var ledger quotav1alpha1.ConsumerLedger
		if err = json.Unmarshal(event.Kv.Value, &ledger); err == nil {
			r.checker.Ledger(r.revision, &ledger)
			r.count++
		}
	}
	if err != nil {
		r.checker.Violations = append(r.checker.Violations, fmt.Sprintf("revision %d: %v", r.revision, err))
	}
}

// Revision is the last one read.
func (r *Recorder) Revision() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.revision
}

// Grants returns the number of reservations for a consumer so far.
func (r *Recorder) Grants(consumer string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.checker.Grants[consumer]
}

// Finish waits until the recorder has read everything in storage. It reports every violation as a failure of the test,
// and returns the number of checked revisions of ledgers.
func (r *Recorder) Finish() int {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	latest, err := r.etcd.Get(ctx, stored, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend), clientv3.WithLimit(1))
	if err == nil && len(latest.Kvs) == 1 {
		err = wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
			return r.Revision() >= latest.Kvs[0].ModRevision, nil
		})
	}
	if err != nil {
		r.t.Fatalf("read the history to its end: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, violation := range r.checker.Violations[:min(len(r.checker.Violations), 20)] {
		r.t.Error(violation)
	}
	if more := len(r.checker.Violations) - 20; more > 0 {
		r.t.Errorf("and %d violations more", more)
	}
	return r.count
}
