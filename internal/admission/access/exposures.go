package access

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
)

// exposedPath is the path where replicas tell each other of an exposed number.
const exposedPath = "/exposed/"

// Expose records that somebody may have read the segments with a number, in the error of a failed call. Once they have
// been published for a few seconds, the leader replaces them.
func (a *Authenticator) Expose(number int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if number <= a.exposed {
		return
	}
	a.exposed = number
	a.notifyLocked()
}

// notifyLocked announces a change of newest or exposed.
func (a *Authenticator) notifyLocked() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// exposure returns the published number if somebody may have read it (otherwise 0), the time until it may be replaced,
// and a channel that closes at the next change.
func (a *Authenticator) exposure() (number int64, wait time.Duration, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.newest == 0 || a.exposed < a.newest {
		return 0, 0, a.changed
	}
	return a.newest, max(0, grace-a.now().Sub(a.appeared)), a.changed
}

// ExposedHandler returns the handler for other replicas, which know of an exposed number.
func (a *Authenticator) ExposedHandler() (pattern string, handler http.Handler) {
	return "POST " + exposedPath + "{number}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number, err := strconv.ParseInt(r.PathValue("number"), 10, 64)
		if err != nil {
			http.Error(w, "the number cannot be read", http.StatusBadRequest)
			return
		}
		a.Expose(number)
	})
}

// Publisher publishes the webhook configurations.
type Publisher interface {
	// WakeWebhooks has the webhook configurations published soon, with the current paths, if this replica leads.
	WakeWebhooks()
}

// Replicas are the other replicas.
type Replicas interface {
	// AskAll sends a request to each and returns the arriving answers.
	AskAll(ctx context.Context, path string, question []byte) [][]byte
}

// Exposures has the leader replace exposed segments. Set its fields once, before use.
type Exposures struct {
	Authenticator *Authenticator
	Publisher     Publisher
	Replicas      Replicas
	Log           logr.Logger
}

// Run reports exposed numbers until ctx ends. A replica may lead or find the leader later, so Run repeats a report
// until the next number is published. While this process did not run, calls may have failed, so it begins with the
// number that it finds.
func (e *Exposures) Run(ctx context.Context) error {
	if !e.Authenticator.hasSecretPaths() {
		return nil
	}
	e.Authenticator.ExposeNewest()

	var reported int64
	for ctx.Err() == nil {
		number, wait, changed := e.Authenticator.exposure()
		if number == 0 {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}

		if number != reported {
			e.Log.Info("an error may show the path of the webhooks, so the leader publishes another", "number", number)
			reported = number
		}
		sleep(ctx, wait)
		e.Publisher.WakeWebhooks()
		e.Replicas.AskAll(ctx, exposedPath+strconv.FormatInt(number, 10), nil)
		sleep(ctx, grace)
	}
	return nil
}

// ExposeNewest exposes the published number, because calls may have failed unseen.
func (a *Authenticator) ExposeNewest() {
	a.mu.Lock()
	newest := a.newest
	a.mu.Unlock()
	a.Expose(newest)
}

func sleep(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}
