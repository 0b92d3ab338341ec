package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// etcdHoldPrefix begins the key of every standalone server in an etcd cluster. Its value are the settings common to
	// all servers. The API server's own keys begin otherwise.
	etcdHoldPrefix = "/bursar/standalone/"
	// etcdReportPrefix begins the key with the webhook configurations in use by a server's API server.
	etcdReportPrefix = "/bursar/observed/"
	// etcdHoldSeconds is how long a hold outlives a killed server.
	etcdHoldSeconds = 15
	// etcdHoldMargin is the additional wait for the hold of a possibly killed server.
	etcdHoldMargin = 2 * time.Second
)

// EtcdHold is the membership of this server in an etcd cluster. It keeps out servers with conflicting settings, and
// lists the members. A server that loses it ends.
type EtcdHold struct {
	client  *clientv3.Client
	session *concurrency.Session
	servers string
}

// hold joins the servers of the etcd cluster, or returns an error if they have other settings. It waits until the hold
// of a killed server has expired.
func (e *ExternalEtcd) hold(ctx context.Context, settings string, progress Progress) (*EtcdHold, error) {
	servers := strings.Join(e.Servers, ", ")
	client, err := e.connect()
	if err != nil {
		return nil, err
	}
	// It outlives ctx: the users of etcd end first.
	session, err := concurrency.NewSession(client, concurrency.WithTTL(etcdHoldSeconds))
	if err != nil {
		closeQuietly(client)
		return nil, fmt.Errorf("take hold of etcd at %s: %w", servers, err)
	}
	h := &EtcdHold{client: client, session: session, servers: servers}
	if err := h.take(ctx, settings, progress); err != nil {
		h.release()
		return nil, err
	}
	return h, nil
}

func (h *EtcdHold) take(ctx context.Context, settings string, progress Progress) error {
	const poll, timeout = 200 * time.Millisecond, etcdHoldSeconds*time.Second + etcdHoldMargin
	var other string
	hasSaid := false
	err := wait.PollUntilContextTimeout(ctx, poll, timeout, true, func(ctx context.Context) (bool, error) {
		joined, has, err := h.join(ctx, settings)
		if ctx.Err() != nil {
			return false, ctx.Err() // etcd returns other errors for it
		}
		if joined || err != nil {
			return joined, err
		}
		if other = has; !hasSaid {
			hasSaid = true
			progress.Printf("another bursar standalone with %s uses this etcd, or did until it was killed: waiting up to %d s for it to end", other, etcdHoldSeconds)
		}
		return false, nil
	})
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("etcd at %s is in use by another bursar standalone with %s, and this one has %s; give all servers of one etcd the same, or name another etcd with --etcd-servers",
			h.servers, other, settings)
	}
	if err != nil {
		return fmt.Errorf("take hold of etcd at %s: %w", h.servers, err)
	}
	return nil
}

// join joins if no server has other settings, and otherwise returns those settings.
func (h *EtcdHold) join(ctx context.Context, settings string) (joined bool, other string, err error) {
	all := clientv3.WithPrefix()
	take := clientv3.OpPut(h.key(etcdHoldPrefix), settings, clientv3.WithLease(h.session.Lease()))
	same := clientv3.Compare(clientv3.Value(etcdHoldPrefix), "=", settings).WithPrefix()
	isEmpty := clientv3.Compare(clientv3.CreateRevision(etcdHoldPrefix), "=", 0).WithPrefix()
	answer, err := h.client.Txn(ctx).If(isEmpty).Then(take).
		Else(clientv3.OpTxn([]clientv3.Cmp{same}, []clientv3.Op{take}, []clientv3.Op{clientv3.OpGet(etcdHoldPrefix, all)})).Commit()
	if err != nil {
		return false, "", err
	}
	if answer.Succeeded {
		return true, "", nil
	}
	inner := answer.Responses[0].GetResponseTxn()
	if inner.Succeeded {
		return true, "", nil
	}
	for _, server := range inner.Responses[0].GetResponseRange().Kvs {
		switch its := string(server.Value); its {
		case settings:
		case "":
			return false, "no place for others", nil // a version that does not share its etcd
		default:
			return false, its, nil
		}
	}
	return false, "other settings", nil
}

func (h *EtcdHold) key(prefix string) string { return fmt.Sprintf("%s%x", prefix, h.session.Lease()) }

// Report publishes the webhook configurations in use by this server's API server to all servers.
func (h *EtcdHold) Report(ctx context.Context, contents []string) error {
	_, err := h.client.Put(ctx, h.key(etcdReportPrefix), strings.Join(contents, " "), clientv3.WithLease(h.session.Lease()))
	if err != nil {
		return fmt.Errorf("report the observed webhooks to etcd at %s: %w", h.servers, err)
	}
	return nil
}

// Behind returns the number of servers without a report of a webhook configuration.
func (h *EtcdHold) Behind(ctx context.Context, content string) (int, error) {
	answer, err := h.client.Txn(ctx).Then(
		clientv3.OpGet(etcdHoldPrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly()),
		clientv3.OpGet(etcdReportPrefix, clientv3.WithPrefix()),
	).Commit()
	if err != nil {
		return 0, fmt.Errorf("read the observed webhooks from etcd at %s: %w", h.servers, err)
	}
	behind := map[string]bool{}
	for _, server := range answer.Responses[0].GetResponseRange().Kvs {
		behind[strings.TrimPrefix(string(server.Key), etcdHoldPrefix)] = true
	}
	for _, report := range answer.Responses[1].GetResponseRange().Kvs {
		for has := range strings.FieldsSeq(string(report.Value)) {
			if has == content {
				delete(behind, strings.TrimPrefix(string(report.Key), etcdReportPrefix))
			}
		}
	}
	return len(behind), nil
}

// lost is closed once the hold cannot be renewed, and others count this server as gone. Without a hold it is never
// closed.
func (h *EtcdHold) lost() <-chan struct{} {
	if h == nil {
		return nil
	}
	return h.session.Done()
}

func (h *EtcdHold) lostError() error {
	return fmt.Errorf("the hold on etcd at %s was lost because etcd did not answer for %d s or ended it; the other servers consider this one dead", h.servers, etcdHoldSeconds)
}

// release ends the hold at once, if etcd answers.
func (h *EtcdHold) release() {
	if h == nil {
		return
	}
	select {
	case <-h.session.Done(): // it is gone, and maybe etcd too
	default:
		_ = h.session.Close() // it expires otherwise
	}
	closeQuietly(h.client)
}
