package kubernetes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// load is clients that create and delete Pods, each at a steady pace and at all API servers in turn, until stop.
type load struct {
	t      *testing.T
	cancel context.CancelFunc
	ctx    context.Context
	group  sync.WaitGroup

	mu sync.Mutex
	// admitted are the times of answered creates, by whether they were for the hot team.
	admitted map[bool][]time.Time
	refused  int
	failures []failure
	// held are the Pods with an answered create and without an attempt to delete them, by UID.
	held map[types.UID]string
}

// failure is a call with an error other than a denial for the quota.
type failure struct {
	began time.Time
	err   error
}

func newLoad(t *testing.T) *load {
	l := &load{t: t, admitted: map[bool][]time.Time{}, held: map[types.UID]string{}}
	l.ctx, l.cancel = context.WithCancel(t.Context())
	return l
}

// run starts a client. It holds some Pods of the teams and replaces the oldest by a new one at every interval.
func (l *load) run(id int, apis []client.Client, hot bool, holds int, interval time.Duration, teams ...*team) {
	l.group.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		var mine []*corev1.Pod
		for i := 0; ; i++ {
			select {
			case <-l.ctx.Done():
				return
			case <-ticker.C:
			}
			n, api := teams[rand.IntN(len(teams))], apis[(id+i)%len(apis)]
			pod, began := n.pod(fmt.Sprintf("load-%d-%d", id, i), 1), time.Now()
			if err := api.Create(l.t.Context(), pod); err != nil {
				l.note(began, err)
			} else {
				l.admit(pod, hot)
				mine = append(mine, pod)
			}
			for len(mine) > 0 && (len(mine) > holds || i%holds == 0) {
				l.release(mine[0])
				began := time.Now()
				if err := api.Delete(l.t.Context(), mine[0]); client.IgnoreNotFound(err) != nil {
					l.note(began, err)
					break // and try again
				}
				mine = mine[1:]
				if len(mine) <= holds {
					break
				}
			}
		}
	})
}

func (l *load) admit(pod *corev1.Pod, hot bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admitted[hot] = append(l.admitted[hot], time.Now())
	l.held[pod.UID] = pod.Namespace + "/" + pod.Name
}

func (l *load) release(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, pod.UID)
}

func (l *load) note(began time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isRefusedByBursar(err) {
		l.refused++
		return
	}
	// The server may have heard a client despite a cut before its answer.
	if !apierrors.IsAlreadyExists(err) {
		l.failures = append(l.failures, failure{began, err})
	}
}

// stop ends all clients, each after the answer to its call.
func (l *load) stop() {
	l.cancel()
	l.group.Wait()
}

// disturb does something to the cluster, and waits for answers to creates of both kinds of teams again. It logs the
// time until then.
func (l *load) disturb(n *team, what string, action func()) {
	n.Helper()
	began := time.Now()
	action()
	done := time.Now()
	const some = 10
	n.eventually(func() error {
		for _, hot := range []bool{true, false} {
			if got := l.since(hot, done); got < some {
				return fmt.Errorf("%s: after that, %d creates were answered (hot: %t)", what, got, hot)
			}
		}
		return nil
	})
	n.Logf("%s: it took %s, then %s until %d creates each were answered; the longest pause was %s for the hot consumer and %s for all others",
		what, round(done.Sub(began)), round(time.Since(done)), some, round(l.pause(true, began)), round(l.pause(false, began)))
	for text, count := range l.failed(began) {
		n.Logf("  failed %d times: %s", count, text)
	}
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// since returns the number of answered creates since a time.
func (l *load) since(hot bool, began time.Time) (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.admitted[hot]) - 1; i >= 0 && l.admitted[hot][i].After(began); i-- {
		count++
	}
	return count
}

// pause returns the longest time since began without an answered create.
func (l *load) pause(hot bool, began time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := began
	for _, at := range append(l.admitted[hot], time.Now()) {
		if at.After(began) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return longest
}

// numbers are the parts that differ between failures of one sort.
var numbers = []*regexp.Regexp{regexp.MustCompile(`(Post|Delete) "\S*"`), regexp.MustCompile(`"load-\S*"`), regexp.MustCompile(`[0-9.]*:\d{4,}`)}

// failed returns the number of failed calls that began since a time, by error.
func (l *load) failed(began time.Time) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int{}
	for _, f := range l.failures {
		if f.began.After(began) {
			text := f.err.Error()
			for _, pattern := range numbers {
				text = pattern.ReplaceAllString(text, "…")
			}
			counts[text]++
		}
	}
	return counts
}
