package operator

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/controller/bucket"
	"github.com/bursar/bursar/internal/kube/fence"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/routing"
)

// leading does the leader's work while this replica leads, in terms. Decisions need no leader. So a replica that loses
// the lead ends its term and goes on answering, and it may lead again.
//
// It passes the changes that this replica sees to the present term. Without a term they are dropped, because a term
// begins with everything that exists.
type leading struct {
	operator *Operator
	cluster  *cluster
	quota    *quota
	server   *server.Server
	peers    *routing.Peers
	// declared has the changes that start reconciles. loaded is closed once the catalog holds all declarations.
	declared *declarations
	loaded   <-chan struct{}
	// held knows what overdue requests hold.
	held bucket.Held
	log  logr.Logger

	term atomic.Pointer[term]
}

// Leads implements [usage.Leadership].
func (l *leading) Leads() bool { return l.term.Load() != nil }

// webhooksObserved reports whether the API server has observed the webhooks in this term.
func (l *leading) webhooksObserved() bool {
	t := l.term.Load()
	return t != nil && t.webhooks.Synced()
}

// WakeWebhooks implements [access.Publisher]: it requests a reconcile of the webhook configurations.
func (l *leading) WakeWebhooks() {
	if t := l.term.Load(); t != nil {
		t.webhooks.Wake()
	}
}

func (l *leading) kindsChanged() {
	if t := l.term.Load(); t != nil {
		t.grants.Wake()
	}
}

func (l *leading) registrationsChanged() {
	if t := l.term.Load(); t != nil {
		t.bucket.RegistrationsChanged()
		t.grants.Wake()
	}
}

func (l *leading) allocationChanged(name string) {
	if t := l.term.Load(); t != nil {
		t.allocation.AllocationChanged(name)
	}
}

func (l *leading) memberChanged(before, after labels.Set) {
	if t := l.term.Load(); t != nil {
		t.allocation.MemberChanged(before, after)
	}
}

func (l *leading) ledgerChanged(consumer quotav1alpha1.ConsumerRef, change ledgerstore.Change) {
	if t := l.term.Load(); t != nil {
		t.bucket.Changed(consumer, change)
	}
}

// demandChanged has the views follow what an object demands, or with an empty UID all objects of a kind.
func (l *leading) demandChanged(kind schema.GroupVersionKind, uid types.UID) {
	t := l.term.Load()
	switch {
	case t == nil:
	case uid == "":
		t.views.KindChanged(kind.GroupKind())
	default:
		t.views.ObjectChanged(kind.GroupKind(), uid)
	}
}

// claimChanged gives a waiting claim a bucket, also before the first grant.
func (l *leading) claimChanged(before, after *claimcache.Claim) {
	if t := l.term.Load(); t != nil && isWaiting(after) && !isWaiting(before) {
		t.bucket.Need(after.Consumer(), after.Requests())
	}
}

func isWaiting(claim *claimcache.Claim) bool {
	return claim != nil && claim.State == claimcache.Waiting
}

// Run leads whenever this replica is elected, until ctx ends. Without other replicas it leads all the time.
func (l *leading) Run(ctx context.Context) error {
	if l.operator.options.LeaderElection == nil {
		return l.lead(ctx)
	}
	lock, err := l.newLock()
	if err != nil {
		return err
	}
	l.quota.ledgers.Lead = lock
	for ctx.Err() == nil {
		if err := l.campaign(ctx, lock); err != nil {
			return err
		}
	}
	l.release(lock)
	return nil
}

// lead does the leader's work until ctx ends.
func (l *leading) lead(ctx context.Context) error {
	t, err := l.newTerm(ctx)
	if err != nil {
		return err
	}
	stopMetrics, err := serveMetrics(l.operator.options.Metrics, t.collectors)
	if err != nil {
		return err
	}
	defer stopMetrics()

	l.log.Info("this replica leads")
	l.server.Authenticator.ExposeNewest() // calls of the last leader may have failed
	l.term.Store(t)
	defer l.end()
	for _, claim := range l.quota.claims.Select(isWaiting) { // later ones are passed to the term
		t.bucket.Need(claim.Consumer(), claim.Requests())
	}
	if err := t.run(ctx, l.server.Certificates); ctx.Err() == nil {
		return err
	}
	return nil
}

// end forgets what only a leader keeps up to date.
func (l *leading) end() {
	l.term.Store(nil)
	l.quota.catalog.ForgetSuspensions()
}

// newLock returns the lock of the leader, with a fence for its writes. Its requests end in half of the time for a
// renewal, so that a renewal whose answer is lost is tried again.
func (l *leading) newLock() (*fence.Lock, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this replica for the election of the leader: %w", err)
	}
	o := l.operator.options
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	lock, err := resourcelock.NewFromKubeconfig(
		resourcelock.LeasesResourceLock, o.SystemNamespace, naming.LeaderLease, identity, o.Config, o.LeaderElection.RenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("make a client for the election of the leader: %w", err)
	}
	return fence.Around(lock, o.LeaderElection.RenewDeadline), nil
}

// campaign waits until this replica is elected and leads until it loses the lead, or until ctx ends.
func (l *leading) campaign(ctx context.Context, lock resourcelock.Interface) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started, ended := make(chan context.Context, 1), make(chan struct{})
	election := l.operator.options.LeaderElection
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: naming.LeaderLease, Lock: lock,
		LeaseDuration: election.LeaseDuration, RenewDeadline: election.RenewDeadline, RetryPeriod: election.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(termCtx context.Context) { started <- termCtx },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("elect the leader: %w", err)
	}
	go func() {
		defer close(ended)
		elector.Run(ctx)
	}()

	select {
	case termCtx := <-started:
		err = l.lead(termCtx)
		if ctx.Err() == nil && err == nil {
			l.log.Info("this replica no longer leads, and goes on answering: it could not renew its Lease in time")
		}
	case <-ended:
	}
	cancel()
	<-ended
	return err
}

// releaseTimeout bounds the release of the lead at the end of the process.
const releaseTimeout = 3 * time.Second

// release gives the lead up if this replica has it, so that another one leads at once. Its own term has ended.
func (l *leading) release(lock resourcelock.Interface) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if err != nil || record.HolderIdentity != lock.Identity() {
		return // without an answer the Lease runs out
	}
	record.HolderIdentity, record.LeaseDurationSeconds = "", 1
	if err := lock.Update(ctx, *record); err != nil {
		l.log.V(1).Info("cannot release the lead; it runs out", "err", err.Error())
	}
}
