// Package adoption tells in the status of a policy how existing objects count by it.
//
// Under a policy whose claims hold the charges, it gives claims to existing objects without a review: objects older
// than the policy, objects admitted without enforcement, and objects created while Bursar was down. It charges them
// beyond the limits, because the objects exist and a ledger without them would be wrong.
//
// Adoption applies a newly effective policy to all objects of its kind, page by page, and reports the progress in its
// status. A restart repeats the scan without changing the status. Adoption inspects an unreviewed object on its own if
// it appears later.
//
// Only the operator, the controller of policies and tests import it.
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// policiesAtOnce is the number of concurrent scans of policies.
	policiesAtOnce = 2
	// workers is the number of concurrent inspections of unreviewed objects.
	workers = 2
	// reviewTimeout is how long an object may wait for its claim before it counts as unreviewed. Another replica may
	// have reviewed it, and this replica sees the result by watch. It is longer than the other replica takes to record
	// its admissions from a slice.
	reviewTimeout = 3 * time.Second
	// retryAfter is the delay until the next scan of a policy after an incomplete scan.
	retryAfter = 5 * time.Second
)

// notAdoptable is the reason for not applying a policy to existing objects.
const notAdoptable = "the demand of the policy depends on user or requestInfo, and these are unknown for existing objects"

// Controller adopts objects in one term as the leader. Set its fields once; call Start, SetupWithManager, and Run.
// AdoptSince needs none of these calls.
type Controller struct {
	Client  client.Client
	Catalog *catalog.Catalog
	Kinds   discoverycache.Resolver
	Live    dynamic.Interface
	Objects *objectcache.Cache
	Claims  *claimcache.Cache
	Store   *ledgerstore.Store
	Engine  Engine
	// Namespaces are those that the engine evaluates policies with.
	Namespaces Namespaces
	// Leases are the Leases in the system namespace.
	Leases coordinationclient.LeaseInterface
	// Counts tells how objects count by policies that count objects.
	Counts          Counts
	Reviews         Reviews
	SystemNamespace string
	// Clock is the API server's clock, the one in creation timestamps. Default: the clock of this machine.
	Clock  Clock
	Events events.EventRecorder
	Log    logr.Logger

	queue workqueue.TypedRateLimitingInterface[object]

	mu   sync.Mutex
	done map[types.UID]scanned // the policies scanned by this process
	// hasRecordedDowntime is true once the policies have the record of the gap before this process.
	hasRecordedDowntime bool

	backlog     backlog
	peerReviews peerReviews
	// reviewedUntil is the last heartbeat of the previous process.
	reviewedUntil time.Time
}

// Engine charges objects.
type Engine interface {
	// Reconcile ensures the claim of a policy for a listed object. An [evaluator.TransientError] is worth a
	// retry.
	Reconcile(ctx context.Context, p *catalog.Policy, listed *unstructured.Unstructured) (engine.Result, error)
}

// Reviews remember the decisions about objects at their creation.
type Reviews interface {
	// Has reports whether this replica has evaluated a policy for an object.
	Has(object types.UID, p *catalog.Policy) bool
	// ByPeers asks the other replicas about many objects, and returns the objects with a review by one of them. A
	// replica without an answer counts as one without reviews.
	ByPeers(ctx context.Context, objects []types.UID, p *catalog.Policy) []types.UID
}

// adopt ensures the claim of a policy for an object, and reports whether the object had none before.
func (c *Controller) adopt(ctx context.Context, p *catalog.Policy, object *unstructured.Unstructured) (adopted bool, err error) {
	result, err := c.Engine.Reconcile(ctx, p, object)
	return result == engine.Adopted, err
}

// scanned is the state of a policy at its last scan.
type scanned struct {
	generation int64
	readySince time.Time
	at         time.Time // when the scan began
}

type object struct {
	kind schema.GroupKind
	uid  types.UID
}

// Start makes the queue. From then on it takes objects.
func (c *Controller) Start() {
	c.done, c.backlog = map[types.UID]scanned{}, newBacklog()
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[object](100*time.Millisecond, 30*time.Second))
}

// SetupWithManager registers the reconciler of policies.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("adoption").
		For(&quotav1alpha1.ClaimCreationPolicy{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: isMoreThanProgress})).
		WithOptions(controller.Options{MaxConcurrentReconciles: policiesAtOnce}).
		Complete(c)
}

// isMoreThanProgress reports whether an update of a policy matters to adoption: whether it is more than adoption's own
// write.
func isMoreThanProgress(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*quotav1alpha1.ClaimCreationPolicy), e.ObjectNew.(*quotav1alpha1.ClaimCreationPolicy)
	return before.Generation != after.Generation || before.UID != after.UID ||
		!equality.Semantic.DeepEqual(readyOf(before), readyOf(after))
}

// Run inspects unreviewed objects until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var life sync.WaitGroup
	defer life.Wait()
	life.Go(func() { c.runHeartbeat(ctx) })
	worker.Run(ctx, c.queue, workers, c.inspect, func(o object, err error) {
		if apierrors.IsConflict(err) {
			c.Log.V(1).Info("the object or its claim has changed meanwhile", "kind", o.kind.String(), "uid", o.uid, "err", err.Error())
			return
		}
		c.Log.Error(err, "will try again", "kind", o.kind.String(), "uid", o.uid)
	})
	return nil
}

// Reconcile implements [reconcile.Reconciler]: it scans the objects of an effective policy.
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
	ready := readyOf(object)
	p := c.Catalog.Policy(object.Name)
	isReady := ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == object.Generation
	isEffective := isReady && p != nil && p.Generation == object.Generation
	switch counts := c.countsObjects(object.Name); {
	case counts && isEffective:
		return c.reportCounts(ctx, object, p)
	case counts:
		return reconcile.Result{}, nil
	case !isEffective:
		return reconcile.Result{}, c.pause(ctx, object, ready)
	}
	return c.scanOnce(ctx, object, p, ready)
}

// scanOnce scans the objects of an effective policy, unless this process has done so since the policy became ready.
func (c *Controller) scanOnce(ctx context.Context, object *quotav1alpha1.ClaimCreationPolicy, p *catalog.Policy, ready *metav1.Condition) (reconcile.Result, error) {
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

// isDone reports whether this process has scanned for a policy since the policy became ready. If the policy was not
// ready in between without a reconcile, isDone records the gap.
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

// pause records the start of a time without reviews of new objects, because an adopted policy is not effective.
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
			u.paused = forever // their claims may disappear while no API server serves the kind
		}
		if since := policy.Status.Adoption.UncheckedSince; since != nil { // maybe by an earlier process
			u.paused = earlier(u.paused, since.Time)
		}
		if u.paused.IsZero() {
			// The policy stopped a little before the write of the condition, by the clock of a replica.
			u.paused = earlier(ready.LastTransitionTime.Time, c.now()).Add(-recordDelayMax)
		}
	})
}

// forever is before the creation of any object. When a kind comes back, adoption inspects objects of any age.
var forever = time.Unix(0, 0)

// isAdopted reports whether a scan for this generation of a policy is complete.
func isAdopted(policy *quotav1alpha1.ClaimCreationPolicy) bool {
	a := policy.Status.Adoption
	return a != nil && a.ObservedGeneration == policy.Generation && a.State == quotav1alpha1.AdoptionComplete && a.CompletionTime != nil
}

// sinceOf returns the creation time from which on objects may lack a claim of a policy. The completed adoption
// inspected all older objects. From then until its last heartbeat, the previous process reviewed each new object,
// except for the recorded backlog and for objects it had no time to record.
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
		if a.UncheckedSince != nil { // maybe by an earlier process
			u.paused = earlier(u.paused, a.UncheckedSince.Time)
		}
		noted = earlier(u.paused, u.oldest)
	})
	return earlier(since, noted), err
}

// Appeared queues unreviewed objects if they appear after the first list of their kind. Call it for each object that
// appears while this replica leads. The next leader inspects the others.
func (c *Controller) Appeared(kind schema.GroupKind, uid types.UID) {
	if o := (object{kind, uid}); c.Objects.IsListed(kind) && len(c.unreviewedPolicies(kind, uid)) > 0 {
		c.backlog.add(o, c.now())
		c.queue.AddAfter(o, reviewTimeout)
	}
}

// unreviewedPolicies returns the policies of a kind without a review of an object.
func (c *Controller) unreviewedPolicies(kind schema.GroupKind, uid types.UID) []*catalog.Policy {
	var unreviewed []*catalog.Policy
	for _, p := range c.Catalog.PoliciesOf(kind) {
		if !p.CountsObjects() && !c.Reviews.Has(uid, p) && !c.hasClaim(p, uid) {
			unreviewed = append(unreviewed, p)
		}
	}
	return unreviewed
}

// hasClaim reports whether an object has a claim or a reservation of a policy.
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

// inspect adopts one unreviewed object.
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

// adoptUnreviewed adopts an object for the policies without a review of it, and reports the result.
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
		case evaluator.IsNotAllowed(err) && !c.Catalog.Allows(p): // it is scanned once the policy is ready again, and the status reports that
		case err != nil:
			c.report(p, about, corev1.EventTypeWarning, "cannot be charged: "+err.Error())
		case adopted:
			c.report(p, about, corev1.EventTypeNormal, charged)
		}
	}
	return errors.Join(errs...)
}

// charged describes an adopted object in events.
const charged = "has been charged"

// report records an event on a policy about an unreviewed object.
func (c *Controller) report(p *catalog.Policy, object evaluator.Object, eventType, becomes string) {
	if c.Events == nil {
		return
	}
	c.Events.Eventf(p.Reference(), object.Reference(), eventType, quotav1alpha1.EventAdopted, "Adopt", "%s was created without a review, and %s", object, becomes)
}
