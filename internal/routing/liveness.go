package routing

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

const (
	// AlivePath is the path where every replica answers while it runs.
	AlivePath = "/alive"
	// nameHeader has the name of the replica that answers.
	nameHeader = "Bursar-Replica"
	// extraWaitMax bounds the random time for which a replica waits longer than [aliveFor] for a sign of life. Replicas
	// that miss the same signs would otherwise all become the preferred one of the same consumers at the same instant.
	extraWaitMax = 3 * time.Second
)

// signs are the signs of life of another replica, by the local clock.
type signs struct {
	// renewed is when this replica saw the Lease change, and answered when the replica last answered a question.
	renewed, answered time.Time
	// extraWait is a random time up to extraWaitMax.
	extraWait time.Duration
}

func newSigns() signs { return signs{extraWait: rand.N(extraWaitMax)} }

// last returns the time of the last sign.
func (s *signs) last() time.Time {
	if s.answered.After(s.renewed) {
		return s.answered
	}
	return s.renewed
}

// isAlive reports whether the replica has shown itself lately. Answers alone count for [forgottenAfter]: a replica that
// answers but cannot reach the API server decides nothing.
func (s *signs) isAlive(now time.Time) bool {
	return now.Sub(s.last()) <= aliveFor+s.extraWait && now.Sub(s.renewed) <= forgottenAfter
}

// Alive returns the handler of the health check. Its answer says which replica answers, because after a restart another
// one may have the same address. Without peers nobody asks.
func (p *Peers) Alive() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if p != nil {
			p.init()
			w.Header().Set(nameHeader, p.name)
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// askSilent asks the replicas with an overdue renewal whether they are alive, until ctx ends. A Lease makes a replica
// known. That it is not renewed may be the fault of an overloaded API server, and then the work of a healthy replica
// must not move to others and add to the load.
func (p *Peers) askSilent(ctx context.Context) {
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var questions sync.WaitGroup
		for name, address := range p.overdue() {
			questions.Go(func() { p.ask(ctx, name, address) })
		}
		questions.Wait()
	}
}

// overdue returns the addresses of the replicas that have missed a renewal, by name.
func (p *Peers) overdue() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	addresses := map[string]string{}
	for name, other := range p.others {
		if time.Since(other.renewed) > renewInterval+renewInterval/2 {
			addresses[name] = other.address
		}
	}
	return addresses
}

// ask records a sign of life if the replica itself answers.
func (p *Peers) ask(ctx context.Context, name, address string) {
	if got, err := p.sender.query(ctx, address, AlivePath); err != nil || got != name {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.others[name]; other != nil {
		other.answered = time.Now()
	}
}
