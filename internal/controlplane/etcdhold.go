package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	// etcdHoldKey is what a standalone server holds in an etcd cluster that it uses. The API
	// server's own keys begin otherwise.
	etcdHoldKey = "/bursar/standalone"
	// etcdHoldSeconds is how long a hold outlives a server that was killed.
	etcdHoldSeconds = 15
	// etcdHoldMargin is how much longer to wait for one that may be of a killed server.
	etcdHoldMargin = 2 * time.Second
)

// etcdHold keeps other standalone servers off an etcd cluster: each would have a certificate
// authority of its own, and an operator that the other's API server does not know.
type etcdHold struct {
	client  *clientv3.Client
	session *concurrency.Session
	servers string
}

// hold takes hold of the etcd cluster, or says that another server has it. It waits for as long as
// a server that was killed may still seem to be there.
func (e *ExternalEtcd) hold(ctx context.Context, say func(format string, args ...any)) (*etcdHold, error) {
	servers := strings.Join(e.Servers, ", ")
	config, err := e.clientConfig()
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %s: %w", servers, err)
	}
	// It outlives ctx: whatever uses etcd goes first.
	session, err := concurrency.NewSession(client, concurrency.WithTTL(etcdHoldSeconds))
	if err != nil {
		closeQuietly(client)
		return nil, fmt.Errorf("take hold of etcd at %s: %w", servers, err)
	}
	h := &etcdHold{client: client, session: session, servers: servers}
	if err := h.take(ctx, say); err != nil {
		h.release()
		return nil, err
	}
	return h, nil
}

func (h *etcdHold) take(ctx context.Context, say func(format string, args ...any)) error {
	mutex := concurrency.NewMutex(h.session, etcdHoldKey)
	err := mutex.TryLock(ctx)
	if errors.Is(err, concurrency.ErrLocked) {
		say("another bursar standalone uses this etcd, or did until it was killed: waiting up to %d s for it to go", etcdHoldSeconds)
		patient, cancel := context.WithTimeout(ctx, etcdHoldSeconds*time.Second+etcdHoldMargin)
		defer cancel()
		err = mutex.Lock(patient)
		if err != nil && ctx.Err() == nil && patient.Err() != nil {
			return fmt.Errorf("etcd at %s is in use by another bursar standalone; stop it or name another etcd with --etcd-servers", h.servers)
		}
	}
	if err != nil {
		return fmt.Errorf("take hold of etcd at %s: %w", h.servers, err)
	}
	return nil
}

// lost is closed once the hold cannot be kept up, and another server may take it. Without a hold
// there is none to lose.
func (h *etcdHold) lost() <-chan struct{} {
	if h == nil {
		return nil
	}
	return h.session.Done()
}

func (h *etcdHold) lostError() error {
	return fmt.Errorf("the hold on etcd at %s was lost because etcd did not answer for %d s or ended it; another bursar standalone may use it now", h.servers, etcdHoldSeconds)
}

// release lets go at once, if etcd answers.
func (h *etcdHold) release() {
	if h == nil {
		return
	}
	select {
	case <-h.session.Done(): // it is gone, and etcd perhaps too
	default:
		_ = h.session.Close() // it ends by itself otherwise
	}
	closeQuietly(h.client)
}
