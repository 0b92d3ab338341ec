// Package adoption sees to it that objects have their claims that nobody was asked about when they
// were created: those that are older than a policy, those that were let past enforcement, and those
// that came while Bursar was down and nothing was enforced. They are charged regardless of the
// limits: they exist, and books that leave them out would be wrong.
//
// A policy that has come into force is applied to all objects of its kind, page by page, and its
// status says how far that is. After a restart the same is done once more, quietly. An object that
// appears later without having been reviewed is looked at by itself.
package adoption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/kube/worker"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

const (
	// policiesAtOnce is how many policies are adopted for at the same time.
	policiesAtOnce = 2
	// workers is how many objects that were not reviewed are looked at at a time.
	workers = 2
	// reviewTimeout is how long an object may wait for its claim before it is taken for one that was not
	// reviewed. Another replica may have reviewed it, and its books come by watch.
	reviewTimeout = 2 * time.Second
	// retryAfter is when a policy is looked at again whose objects could not all be looked at.
	retryAfter = 5 * time.Second
)

// notAdoptable is why a policy is not applied to objects that exist.
const notAdoptable = "what the policy asks depends on user or requestInfo, which cannot be told of objects that exist"

// EventReasonAdopted is the reason of the events on policies about objects that were not reviewed.
const EventReasonAdopted = "Adopted"

// Controller adopts. Its fields are set once; call Start, then SetupWithManager, then Run.
type Controller struct {
	Client  client.Client
	Catalog *catalog.Catalog
	Kinds   discoverycache.Resolver
	Live    dynamic.Interface
	Objects *objectcache.Cache
	Claims  *claimcache.Cache
	Store   *ledgerstore.Store
	Engine  Engine
	// Leadership decides whether this replica adopts.
	Leadership Leadership
	// Leases are those in the system namespace.
	Leases          coordinationclient.LeaseInterface
	Reviews         Reviews
	SystemNamespace string
	// Clock is that of the API server, which stamps the objects that are created. Default: that of this machine.
	Clock  Clock
	Events events.EventRecorder
	Log    logr.Logger

	queue workqueue.TypedRateLimitingInterface[object]

	mu   sync.Mutex
	done map[types.UID]scanned // the policies that this process has adopted for
	// hasRecordedDowntime is set once it is noted what was unchecked when this process began.
	hasRecordedDowntime bool

	backlog     backlog
	peerReviews peerReviews
	// reviewedUntil is when the process before this one was last seen.
	reviewedUntil time.Time
}

// Engine has objects charged.
type Engine interface {
	// ReconcileListed makes sure that an object, as it was listed, has the claim that a policy asks. An
	// [evaluator.TransientError] is worth another try.
	ReconcileListed(ctx context.Context, p *catalog.Policy, listed *unstructured.Unstructured) (engine.Result, error)
}

// Leadership decides which replica does what one of them does alone.
type Leadership interface{ Leads() bool }

// Reviews remember what was decided about objects when they were created.
type Reviews interface {
	// Has reports whether this replica has decided what an object costs by a policy.
	Has(object types.UID, p *catalog.Policy) bool
	// ByPeers asks the other replicas the same of many objects, and returns those of which one has decided it. A
	// replica that does not answer has decided nothing.
	ByPeers(ctx context.Context, objects []types.UID, p *catalog.Policy) []types.UID
}

// Clock tells the time.
type Clock interface{ Now() time.Time }

func (c *Controller) now() time.Time {
	if c.Clock == nil {
		return time.Now()
	}
	return c.Clock.Now()
}

// adopt makes sure that an object has the claim that a policy asks, and reports whether it had none before.
func (c *Controller) adopt(ctx context.Context, p *catalog.Policy, object *unstructured.Unstructured) (adopted bool, err error) {
	result, err := c.Engine.ReconcileListed(ctx, p, object)
	return result == engine.Adopted, err
}

// scanned is the state of a policy in which it was adopted for.
type scanned struct {
	generation int64
	readySince time.Time
	at         time.Time // when the scan began
}

type object struct {
	kind schema.GroupKind
	uid  types.UID
}

// Start registers the controller with what it follows.
func (c *Controller) Start() {
	c.done, c.backlog = map[types.UID]scanned{}, newBacklog()
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[object](100*time.Millisecond, 30*time.Second))
	c.Objects.OnAppear(c.appeared)
}

// SetupWithManager registers the reconciler of policies.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("adoption").
		For(&quotav1alpha1.ClaimCreationPolicy{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: isMoreThanProgress})).
		WithOptions(controller.Options{MaxConcurrentReconciles: policiesAtOnce}).
		Complete(c)
}

// isMoreThanProgress tells whether an update of a policy is more than what adoption writes.
func isMoreThanProgress(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*quotav1alpha1.ClaimCreationPolicy), e.ObjectNew.(*quotav1alpha1.ClaimCreationPolicy)
	return before.Generation != after.Generation || before.UID != after.UID ||
		!equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions)
}

// Run looks at objects that were not reviewed until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var life sync.WaitGroup
	defer life.Wait()
	life.Go(func() { c.runHeartbeat(ctx) })
	worker.Run(ctx, c.queue, workers, c.inspect, func(o object, err error) {
		c.Log.Error(err, "will try again", "kind", o.kind.String(), "uid", o.uid)
	})
	return nil
}

// Reconcile implements [reconcile.Reconciler]: it adopts for a policy that is in force.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := c.Claims.WaitForSync(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.recordDowntime(ctx); err != nil {
		return reconcile.Result{}, err
	}
	object := &quotav1alpha1.ClaimCreationPolicy{}
	if err := c.Client.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ready := apimeta.FindStatusCondition(object.Status.Conditions, quotav1alpha1.ConditionReady)
	p := c.Catalog.Policy(object.Name)
	isReady := ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == object.Generation
	if !isReady || p == nil || p.Generation != object.Generation {
		return reconcile.Result{}, c.pause(ctx, object, ready)
	}
	if isDone, err := c.isDone(ctx, object, ready); isDone || err != nil {
		return reconcile.Result{}, err
	}
	began := c.now()
	since, err := c.sinceOf(ctx, object)
	if err != nil {
		return reconcile.Result{}, err
	}
	s := &scan{Controller: c, policy: p, progress: progressOf(object, p.FollowsUpdates(), c.now), since: since}
	complete, err := s.run(ctx)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("adopt objects for ClaimCreationPolicy %s: %w", object.Name, err)
	}
	if !complete {
		return reconcile.Result{RequeueAfter: retryAfter}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[object.UID] = scanned{object.Generation, ready.LastTransitionTime.Time, began}
	return reconcile.Result{}, nil
}

// isDone reports whether this process has adopted for a policy since the policy became ready. If the policy was not ready
// meanwhile, and nobody came to note that, isDone notes it.
func (c *Controller) isDone(ctx context.Context, policy *quotav1alpha1.ClaimCreationPolicy, ready *metav1.Condition) (bool, error) {
	c.mu.Lock()
	done, isKnown := c.done[policy.UID]
	c.mu.Unlock()
	switch {
	case !isKnown || done.generation != policy.Generation:
		return false, nil
	case done.readySince.Equal(ready.LastTransitionTime.Time):
		return true, nil
	default:
		return false, c.updateBacklog(ctx, policy.Name, func(u *policyBacklog) { u.paused = earlier(u.paused, done.at.Add(-recordDelayMax)) })
	}
}

// pause notes that objects may come without a review from now on, because a policy that was adopted
// for is not in force.
func (c *Controller) pause(ctx context.Context, policy *quotav1alpha1.ClaimCreationPolicy, ready *metav1.Condition) error {
	c.mu.Lock()
	delete(c.done, policy.UID)
	c.mu.Unlock()
	if !isAdopted(policy) || ready == nil || ready.Status == metav1.ConditionTrue {
		return nil
	}
	trigger := policy.Spec.Trigger.Resource
	_, isServed, err := c.Kinds.VersionedResourceFor(ctx, schema.FromAPIVersionAndKind(trigger.APIVersion, trigger.Kind))
	return c.updateBacklog(ctx, policy.Name, func(u *policyBacklog) {
		if err == nil && !isServed {
			u.paused = forever // their claims may go while the kind is away
		}
		if since := policy.Status.Adoption.UncheckedSince; since != nil { // maybe by a process before this one
			u.paused = earlier(u.paused, since.Time)
		}
		if u.paused.IsZero() {
			// It was so a little before it was said, by the clock of a replica.
			u.paused = earlier(ready.LastTransitionTime.Time, c.now()).Add(-recordDelayMax)
		}
	})
}

// forever is before any object was created. Objects of any age are looked at when a kind comes back that was not served.
var forever = time.Unix(0, 0)

// isAdopted tells whether all objects had been looked at for this generation of a policy.
func isAdopted(policy *quotav1alpha1.ClaimCreationPolicy) bool {
	a := policy.Status.Adoption
	return a != nil && a.ObservedGeneration == policy.Generation && a.State == quotav1alpha1.AdoptionComplete && a.CompletionTime != nil
}

// sinceOf returns when the oldest objects were created that may lack a claim of a policy. All had been
// looked at when adoption was complete, and since then until it was last seen, the process before this
// one reviewed what was created, but for what it noted and what it had no time to note.
func (c *Controller) sinceOf(ctx context.Context, policy *quotav1alpha1.ClaimCreationPolicy) (time.Time, error) {
	if !isAdopted(policy) {
		return time.Time{}, nil
	}
	a := policy.Status.Adoption
	since := a.CompletionTime.Add(-recordDelayMax)
	if until := c.reviewedUntil.Add(-recordDelayMax); until.After(since) {
		since = until
	}
	var noted time.Time
	err := c.updateBacklog(ctx, policy.Name, func(u *policyBacklog) {
		if a.UncheckedSince != nil { // maybe by a process before this one
			u.paused = earlier(u.paused, a.UncheckedSince.Time)
		}
		noted = earlier(u.paused, u.oldest)
	})
	return earlier(since, noted), err
}

// appeared notes objects that appear after the first list of their kind without a review.
func (c *Controller) appeared(kind schema.GroupKind, uid types.UID) {
	if !c.Leadership.Leads() {
		return // whoever leads next looks at what was created meanwhile
	}
	if o := (object{kind, uid}); c.Objects.IsListed(kind) && len(c.unreviewedPolicies(kind, uid)) > 0 {
		c.backlog.add(o, c.now())
		c.queue.AddAfter(o, reviewTimeout)
	}
}

// missing returns the policies for a kind that nobody has applied to an object.
func (c *Controller) unreviewedPolicies(kind schema.GroupKind, uid types.UID) []*catalog.Policy {
	var missing []*catalog.Policy
	for _, p := range c.Catalog.PoliciesOf(kind) {
		if !c.Reviews.Has(uid, p) && !c.hasClaim(p, uid) {
			missing = append(missing, p)
		}
	}
	return missing
}

// hasClaim tells whether an object has a claim or a reservation of a policy.
func (c *Controller) hasClaim(p *catalog.Policy, uid types.UID) bool {
	policy := claims.LabelValue(p.Name)
	for _, claim := range c.Claims.ForObject(uid) {
		if claim.Policy() == policy {
			return true
		}
	}
	key := ledgerstore.ObjectKey(policy, string(uid))
	return slices.ContainsFunc(c.Store.ReservationsFor(string(uid)), func(r ledgerstore.InFlight) bool { return r.Key == key })
}

// look adopts one object that was not reviewed.
func (c *Controller) inspect(ctx context.Context, o object) error {
	name, ok := c.Objects.Name(o.kind, o.uid)
	if ok && !namespaces.IsExempt(c.SystemNamespace, o.kind, name) {
		if err := c.adoptUnreviewed(ctx, o, name); err != nil {
			return err
		}
	}
	if err := c.removeFromBacklog(ctx, o); err != nil {
		return err
	}
	c.peerReviews.forget(o.uid)
	return nil
}

// adoptUnreviewed adopts an object for the policies that were not asked about it, and reports that.
func (c *Controller) adoptUnreviewed(ctx context.Context, o object, name types.NamespacedName) error {
	var errs []error
	for _, p := range c.unreviewedPolicies(o.kind, o.uid) {
		if c.isReviewedByPeer(ctx, o, p) {
			continue
		}
		about := evaluator.Object{Kind: p.Trigger, Name: name, UID: o.uid}
		if p.UsesRequest() {
			c.report(p, about, corev1.EventTypeWarning, "is not charged: "+notAdoptable)
			continue
		}
		if err := c.recordBacklog(ctx, p.Name, o); err != nil {
			errs = append(errs, err)
			continue
		}
		resource, served, err := c.Kinds.VersionedResourceFor(ctx, p.Trigger)
		if err != nil || !served {
			errs = append(errs, err)
			continue
		}
		live, err := c.Live.Resource(resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
		if err != nil || live.GetUID() != o.uid {
			errs = append(errs, client.IgnoreNotFound(err))
			continue
		}
		adopted, err := c.adopt(ctx, p, live)
		switch {
		case evaluator.IsTransient(err):
			errs = append(errs, err)
		case evaluator.IsNotAllowed(err) && !c.Catalog.Allows(p): // it is looked at once the policy is ready again, which says so
		case err != nil:
			c.report(p, about, corev1.EventTypeWarning, "cannot be charged: "+err.Error())
		case adopted:
			c.report(p, about, corev1.EventTypeNormal, charged)
		}
	}
	return errors.Join(errs...)
}

// charged is what becomes of an object that was adopted.
const charged = "has been charged"

// report records an event on a policy, about an object that was not reviewed and what becomes of it.
func (c *Controller) report(p *catalog.Policy, object evaluator.Object, eventType, becomes string) {
	if c.Events == nil {
		return
	}
	c.Events.Eventf(p.Reference(), object.Reference(), eventType, EventReasonAdopted, "Adopt", "%s was created without a review, and %s", object, becomes)
}
