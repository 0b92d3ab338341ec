// Package routing finds the preferred replica of each consumer among the live replicas, by rendezvous hashing. The
// preferred replica decides the reviews that charge the consumer, and does the consumer's shared work at once. So one
// process writes a ledger, without conflicts.
//
// The preference only saves time. If two replicas consider themselves preferred, or none does, that costs conflicts or
// a delay; the versions of the ledgers keep decisions exact. Webhooks and controllers import it.
package routing

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

const (
	// leasePrefix begins the name of every replica's Lease.
	leasePrefix = "bursar-replica-"
	// renewInterval is the time between two renewals of a replica's Lease. aliveFor is how long a replica at least counts
	// as alive without a renewal or an answer. Other replicas measure both by their own clocks.
	renewInterval = 2 * time.Second
	aliveFor      = 3 * renewInterval
	// forgottenAfter is the age at which the Lease of a dead replica is deleted.
	forgottenAfter = time.Minute
	// suspectMin and suspectMax bound how long a replica without an answer gets no requests. The time doubles with each
	// failure.
	suspectMin = 3 * time.Second
	suspectMax = time.Minute
)

// Certificates has this replica's certificate, and the CA bundle of all replicas' certificates.
type Certificates interface {
	// GetCertificate returns the certificate, as a GetCertificate function of [tls.Config].
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Bundle returns the CA bundle, in PEM.
	Bundle() []byte
}

// PeerPaths knows the paths reserved for other replicas.
type PeerPaths interface {
	// PeerPath returns a path of a replica in its form for other replicas.
	PeerPath(path string) string
}

// Peers are the live replicas. Set its fields once, before use.
type Peers struct {
	Client    kubernetes.Interface
	Namespace string
	// Address is where this replica answers reviews, as host:port.
	Address string
	// ServerName is in the certificate of every replica, and Certificates verifies it.
	ServerName   string
	Certificates Certificates
	// Paths has the path for a request to another replica. The path authenticates this replica. Default: no
	// authentication.
	Paths PeerPaths
	Log   logr.Logger

	once   sync.Once
	sender *sender
	name   string

	mu     sync.Mutex
	active bool
	others map[string]*peer // by name of the Lease
}

// peer is another replica.
type peer struct {
	address string
	// format is the latest format of ledgers that it reads.
	format int64
	signs
	// renewTime is the latest seen renewal, by the peer's own clock.
	renewTime metav1.MicroTime
	// version is the version of the latest seen Lease.
	version string
	// suspectUntil is the end of a pause without requests to it, and suspectFor the length of the pause.
	suspectUntil time.Time
	suspectFor   time.Duration
}

func (p *Peers) init() {
	p.once.Do(func() {
		p.name, p.others = leasePrefix+rand.String(10), map[string]*peer{}
		p.sender = newSender(p.ServerName, p.Certificates, p.Paths)
	})
}

// Follow follows the other replicas until ctx ends. It returns after the first list.
func (p *Peers) Follow(ctx context.Context) error {
	p.init()
	factory := informers.NewSharedInformerFactoryWithOptions(p.Client, 0, informers.WithNamespace(p.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = quotav1alpha1.LabelReplica }))
	handle, err := factory.Coordination().V1().Leases().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    p.observe,
		UpdateFunc: func(_, object any) { p.observe(object) },
		DeleteFunc: p.forget,
	})
	if err != nil {
		return fmt.Errorf("follow the Leases of the replicas: %w", err)
	}
	factory.StartWithContext(ctx)
	cache.WaitForCacheSync(ctx.Done(), handle.HasSynced)
	go p.askSilent(ctx)
	return nil
}

// Advertise makes this replica known to the others, until ctx or working ends.
func (p *Peers) Advertise(ctx, working context.Context) {
	p.init()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(working, cancel)()
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := p.renew(working); err != nil && ctx.Err() == nil {
			p.Log.Error(err, "cannot renew the Lease, so the other replicas consider this one dead; will try again")
		}
		p.deleteForgotten(working)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	p.mu.Lock()
	p.active = false
	p.mu.Unlock()
	err := p.Client.CoordinationV1().Leases(p.Namespace).Delete(working, p.name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && working.Err() == nil {
		p.Log.Error(err, "cannot delete the Lease, so the other replicas may ask this one for a moment longer")
	}
}

// alive returns the other live replicas, with or without answers.
func (p *Peers) alive() []*peer {
	if p == nil {
		return nil
	}
	p.init()
	p.mu.Lock()
	defer p.mu.Unlock()
	var alive []*peer
	for _, other := range p.others {
		if other.isAlive(time.Now()) {
			alive = append(alive, other)
		}
	}
	return alive
}

// IsAlone reports whether no other replica is alive.
func (p *Peers) IsAlone() bool { return len(p.alive()) == 0 }

// renew renews this replica's Lease.
func (p *Peers) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, aliveFor-renewInterval)
	defer cancel()
	api, now := p.Client.CoordinationV1().Leases(p.Namespace), metav1.NowMicro()
	lease, err := api.Get(ctx, p.name, metav1.GetOptions{})
	switch {
	case err == nil:
		lease.Spec.RenewTime = &now
		_, err = api.Update(ctx, lease, metav1.UpdateOptions{})
	case apierrors.IsNotFound(err):
		lease = &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name: p.name, Labels: map[string]string{quotav1alpha1.LabelReplica: ""}, Annotations: map[string]string{
					quotav1alpha1.AnnotationAddress: p.Address, quotav1alpha1.AnnotationLedgerFormat: strconv.Itoa(quotav1alpha1.ConsumerLedgerFormat),
				},
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &p.name, LeaseDurationSeconds: new(int32(aliveFor.Seconds())), RenewTime: &now},
		}
		_, err = api.Create(ctx, lease, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renew Lease %s/%s: %w", p.Namespace, p.name, err)
	}
	p.mu.Lock()
	p.active = true
	p.mu.Unlock()
	return nil
}

func (p *Peers) observe(object any) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok || lease.Name == p.name || lease.Spec.RenewTime == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	other := p.others[lease.Name]
	if other == nil {
		other = &peer{address: lease.Annotations[quotav1alpha1.AnnotationAddress], signs: newSigns()}
		other.format, _ = strconv.ParseInt(lease.Annotations[quotav1alpha1.AnnotationLedgerFormat], 10, 64) // 0 for an earlier version
		p.others[lease.Name] = other
	}
	other.version = lease.ResourceVersion
	if !other.renewTime.Equal(lease.Spec.RenewTime) {
		other.renewTime, other.renewed = *lease.Spec.RenewTime, time.Now()
	}
}

func (p *Peers) forget(object any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}
	_, name, _ = cache.SplitMetaNamespaceKey(name) // the key is one of the cache's own
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.others, name)
}

// deleteForgotten deletes the Leases left by ended replicas.
func (p *Peers) deleteForgotten(ctx context.Context) {
	gone := map[string]string{}
	p.mu.Lock()
	for name, other := range p.others {
		if time.Since(other.renewed) > forgottenAfter {
			gone[name] = other.version
		}
	}
	p.mu.Unlock()
	for name, version := range gone {
		// A Lease renewed since, unseen because this process was paused, has another version and stays. A failed delete
		// is tried again in a moment.
		unchanged := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}}
		_ = p.Client.CoordinationV1().Leases(p.Namespace).Delete(ctx, name, unchanged)
	}
}

// IsPreferred reports whether this replica is the preferred one of a consumer. Without peers it is.
func (p *Peers) IsPreferred(consumer quotav1alpha1.ConsumerRef) bool {
	return p == nil || p.preferred(consumer) == nil
}

// IsOnly implements [Replicas]: without peers there is no other replica.
func (p *Peers) IsOnly() bool { return p == nil }

// CanRead reports whether all live replicas read a format of ledgers. During an update some may not.
func (p *Peers) CanRead(format int64) bool {
	return !slices.ContainsFunc(p.alive(), func(other *peer) bool { return other.format < format })
}

// preferred returns the preferred replica of a consumer, or nil for this one. All replicas with the same view get the
// same result. After the loss of one replica, only its own consumers move.
func (p *Peers) preferred(consumer quotav1alpha1.ConsumerRef) *peer {
	p.init()
	ledger, now := naming.Ledger(consumer), time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	var preferred *peer
	var most uint64
	if p.active {
		most = xxhash.Sum64String(p.name + "/" + ledger)
	}
	for name, other := range p.others {
		if !other.isAlive(now) || now.Before(other.suspectUntil) {
			continue
		}
		if weight := xxhash.Sum64String(name + "/" + ledger); weight > most {
			preferred, most = other, weight
		}
	}
	return preferred
}

// recordAnswer records whether a replica answered.
func (p *Peers) recordAnswer(other *peer, did bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if did {
		other.suspectFor = 0
		return
	}
	other.suspectFor = min(max(2*other.suspectFor, suspectMin), suspectMax)
	other.suspectUntil = time.Now().Add(other.suspectFor)
}
