package grantpolicy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
	"github.com/bursar/bursar/internal/kube/worker"
)

const (
	localWorkers  = 4
	remoteWorkers = 2
	// applyRetryMax is the longest delay before the retry of a failed write.
	applyRetryMax = 30 * time.Second
	// contactRetryMin is the shortest delay before the next contact with a control plane without an answer.
	contactRetryMin = time.Second
	// grantsPage is the number of grants in a page of a list, and policiesAtOnce the number of policies with their
	// grants in one list.
	grantsPage     = 500
	policiesAtOnce = 200
)

// controlPlane is a control plane with grants of policies.
type controlPlane struct {
	ref   remote.Ref
	owner *Controller
	// api reads from the API server and writes to it. It is nil if invalid is not.
	api client.Client
	// invalid is the reason against any contact with the control plane.
	invalid error
	queue   workqueue.TypedRateLimitingInterface[key]
	wake    chan struct{}
	stop    context.CancelFunc
	// kubeconfig is the source of api, and secret the name of its Secret. The controller's lock guards both.
	kubeconfig []byte
	secret     string

	// Hold work for reading during a write, and for writing during a list of the grants: then a list never hides a
	// concurrent write.
	work sync.RWMutex

	mu     sync.Mutex
	grants *inventory
	// busy counts the keys in progress by policy.
	busy map[types.UID]int
	// doubtful are the policies with a create of unknown result.
	doubtful map[types.UID]struct{}
	// reported is the last reported error of each failing key.
	reported map[key]string
	// listed is true if grants is complete except for doubtful policies. listedAt is when the list began.
	listed   bool
	listedAt time.Time
	// isContacted is true after the first contact with the control plane, and problem is the reason for no answer.
	isContacted bool
	problem     error
}

func newControlPlane(c *Controller, ref remote.Ref, api client.Client, invalid error) *controlPlane {
	return &controlPlane{
		ref: ref, owner: c, api: api, invalid: invalid,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[key](200*time.Millisecond, applyRetryMax)),
		wake:   make(chan struct{}, 1),
		grants: newInventory(ref), busy: map[types.UID]int{}, doubtful: map[types.UID]struct{}{}, reported: map[key]string{},
	}
}

// holdsGrant reports whether the control plane, as far as known, holds a grant of a key.
func (p *controlPlane) holdsGrant(k key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.grants.byKey[k]) > 0
}

// mayHold reports whether a grant of a key exists in the control plane, or is about to. In a control plane without an
// answer only known grants exist. p may be nil: no Secret registers the control plane.
func (p *controlPlane) mayHold(k key) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.grants.byKey[k]) > 0 || p.listed && p.problem == nil
}

// isHeldBy reports whether the control plane of a mark, as far as known, holds a grant of a key.
func (c *Controller) isHeldBy(mark string, k key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ref, p := range c.controlPlanes {
		if ref.Mark() == mark && p.holdsGrant(k) {
			return true
		}
	}
	return false
}

// enqueueAll queues all grants of a policy.
func (p *controlPlane) enqueueAll(policy types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.grants.byPolicy[policy] {
		p.queue.Add(k)
	}
}

// isClean reports whether the control plane holds no grant of a policy without desired grants there since the given
// time.
func (p *controlPlane) isClean(policy types.UID, since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, doubtful := p.doubtful[policy]
	isRecent := p.ref.IsLocal() || p.listedAt.After(since)
	return p.listed && isRecent && !doubtful && p.busy[policy] == 0 && len(p.grants.byPolicy[policy]) == 0
}

// state reports whether there was contact with the control plane, and why it is unusable.
func (p *controlPlane) state() (isContacted bool, problem error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isContacted, p.problem
}

// runRemote reconciles a remote control plane until ctx ends.
func (p *controlPlane) runRemote(ctx context.Context) {
	if p.invalid != nil {
		p.queue.ShutDown()
		return
	}
	var group sync.WaitGroup
	group.Go(func() { worker.Run(ctx, p.queue, remoteWorkers, p.process, p.failed) })
	wait := contactRetryMin
	for ctx.Err() == nil {
		if p.compare(ctx) {
			wait = contactRetryMin
			p.pause(ctx, p.owner.CompareInterval)
		} else {
			p.pause(ctx, wait)
			wait = min(2*wait, p.owner.CompareInterval)
		}
	}
	group.Wait()
}

// pause waits. A compare request ends it at once or, after a failed contact, soon.
func (p *controlPlane) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	wake := p.wake
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-wake:
			if _, problem := p.state(); problem == nil {
				return
			}
			wake = nil
			timer.Reset(min(d, contactRetryMin))
		}
	}
}

// requestCompare requests a list of the grants soon.
func (p *controlPlane) requestCompare() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// probe requests a contact with the control plane. Its workers pause until it answers.
func (p *controlPlane) probe(err error) {
	p.recordAnswer(err)
	p.requestCompare()
}

// compare lists the grants, queues all existing and desired keys, and reports whether the control plane answered.
func (p *controlPlane) compare(ctx context.Context) bool {
	policies, err := p.owner.policiesWithParents(ctx)
	if err != nil {
		return false // ctx has ended
	}
	if len(policies) == 0 {
		p.reset()
		return true
	}
	found, err := p.list(ctx, policies)
	if ctx.Err() != nil {
		return false
	}
	p.recordAnswer(err)
	if err != nil {
		return false
	}
	for _, k := range found {
		p.queue.Add(k)
	}
	for _, k := range p.owner.desiredKeys(p.ref) {
		p.queue.Add(k)
	}
	return true
}

// recordAnswer records whether the control plane answers, and wakes the policies after a change.
func (p *controlPlane) recordAnswer(problem error) {
	p.mu.Lock()
	news := !p.isContacted || (p.problem == nil) != (problem == nil)
	p.isContacted, p.problem = true, problem
	p.mu.Unlock()
	if news {
		p.owner.controlPlanesChanged()
	}
}

// reset forgets the grants and the last answer, because no policy needs other control planes.
func (p *controlPlane) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grants, p.listed, p.isContacted, p.problem = newInventory(p.ref), false, false, nil
}

// list reads the grants of policies.
func (p *controlPlane) list(ctx context.Context, policies []string) ([]key, error) {
	p.work.Lock()
	defer p.work.Unlock()
	began := time.Now()
	grants := newInventory(p.ref)
	var keys []key
	for some := range slices.Chunk(policies, policiesAtOnce) {
		list, err := p.listOf(ctx, some)
		if err != nil {
			return nil, err
		}
		for i := range list {
			keys = append(keys, grants.put(&list[i])...)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grants, p.listed, p.listedAt = grants, true, began
	p.doubtful = map[types.UID]struct{}{}
	return keys, nil
}

func (p *controlPlane) listOf(ctx context.Context, policies []string) ([]quotav1alpha1.ResourceGrant, error) {
	requirement, err := labels.NewRequirement(quotav1alpha1.LabelPolicyUID, selection.In, policies)
	if err != nil {
		return nil, fmt.Errorf("select the grants: %w", err)
	}
	selector := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*requirement)}
	var all []quotav1alpha1.ResourceGrant
	var page quotav1alpha1.ResourceGrantList
	for next := ""; ; next = page.Continue {
		page = quotav1alpha1.ResourceGrantList{}
		if err := p.api.List(ctx, &page, selector, client.Limit(grantsPage), client.Continue(next)); err != nil {
			return nil, listError(err)
		}
		all = append(all, page.Items...)
		if page.Continue == "" {
			return all, nil
		}
	}
}

// listError returns one sentence on why a list of the grants fails.
func listError(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return errors.New("it does not serve ResourceGrants; install Bursar's CustomResourceDefinitions there")
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("its kubeconfig may not list ResourceGrants there: %w", err)
	default:
		return fmt.Errorf("it does not answer: %w", err)
	}
}

// policiesWithParents returns the UIDs of all policies with possible grants in other control planes, including policies
// not reconciled yet.
func (c *Controller) policiesWithParents(ctx context.Context) ([]string, error) {
	var list quotav1alpha1.GrantCreationPolicyList
	if err := c.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list the policies: %w", err)
	}
	var uids []string
	for i := range list.Items {
		if hasParents(&list.Items[i]) {
			uids = append(uids, string(list.Items[i].UID))
		}
	}
	return uids, nil
}

func hasParents(policy *quotav1alpha1.GrantCreationPolicy) bool {
	return policy.Spec.Target.ParentContext != nil || slices.Contains(policy.Finalizers, quotav1alpha1.FinalizerParentGrants)
}

// controlPlanesChanged queues the policies with other control planes.
func (c *Controller) controlPlanesChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, s := range c.policies {
		if hasParents(s.object) {
			c.wakeLocked(uid)
		}
	}
}

// isAnswer reports whether an error came from an API server, and not from a failed connection.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// isDefinite reports whether an error proves the failure of a create.
func isDefinite(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonAlreadyExists, metav1.StatusReasonNotFound, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid,
		metav1.StatusReasonUnauthorized, metav1.StatusReasonBadRequest, metav1.StatusReasonTooManyRequests:
		return true
	default:
		return false
	}
}

// failed counts and reports a failed key, once for each reason.
func (p *controlPlane) failed(k key, err error) {
	p.owner.metrics.wrote(wroteNone)
	var problem *grantError
	if !errors.As(err, &problem) || !p.ref.IsLocal() && !isAnswer(problem.err) && !problem.ours {
		p.owner.Log.V(1).Info("will try again", "where", p.ref.String(), "problem", err.Error())
		return
	}
	p.mu.Lock()
	news := p.reported[k] != err.Error()
	p.reported[k] = err.Error()
	p.mu.Unlock()
	if news {
		p.owner.recount(k.policy)
		p.owner.recordGrantEvent(k, problem.grant, warning, quotav1alpha1.EventGrantFailed, "Apply", "%s", strings.TrimSpace(err.Error()))
	}
}

func (p *controlPlane) done(k key) {
	p.mu.Lock()
	_, wasTold := p.reported[k]
	delete(p.reported, k)
	p.mu.Unlock()
	if wasTold {
		p.owner.recount(k.policy)
	}
}

// failures returns the errors of a policy's grants, by object.
func (p *controlPlane) failures(policy types.UID) map[types.UID]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	failures := map[types.UID]string{}
	for k, why := range p.reported {
		if k.policy == policy {
			failures[k.object] = why
		}
	}
	return failures
}
