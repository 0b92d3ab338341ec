package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// pendingRetry is how long a change that is under way is left alone.
const pendingRetry = time.Second

// changing is an object of which an update was admitted that changes what it costs. It is not
// modified once it is noted: a later change of the object is another one.
type changing struct {
	kind  schema.GroupKind
	since time.Time
	// base is the version that the update is made to: until the object has a later one, it may come.
	base string
	// freed are the consumers that have more after the update.
	freed []quotav1alpha1.ConsumerRef
	// restored are the policies, as labels name them, of which a claim of the object went away: it
	// gets what it lacks of these, and of those that follow updates.
	restored []string
}

// Expect notes that an object is about to change in a way that changes what it costs. base is the
// version that the change is made to. freed are the consumers of whom it will cost less: refusals
// wait a little for that.
func (c *Controller) Expect(kind schema.GroupKind, uid types.UID, base string, freed []quotav1alpha1.ConsumerRef) {
	for _, consumer := range freed {
		c.Store.ExpectRelease(consumer, releaseOf(uid))
	}
	c.note(uid, &changing{kind: kind, base: base, freed: freed})
	if len(freed) > 0 {
		c.queue.AddAfter(object{kind, uid}, pendingRetry) // nobody waits any longer
	}
}

// IsFreeing tells whether a consumer will have more once the claims of an object follow a change that
// was made to it: the object, of which this is the version, is past that which the change was made to.
func (c *Controller) IsFreeing(uid types.UID, version string, consumer quotav1alpha1.ConsumerRef) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	change := c.changing[uid]
	return change != nil && slices.Contains(change.freed, consumer) && !claims.MayChange(version, change.base)
}

// Restore enqueues an object that may lack the claim of the policy with that label.
func (c *Controller) Restore(kind schema.GroupKind, uid types.UID, policy string) {
	c.restore(kind, uid, policy)
}

// restore has an object looked at of which the claim of a policy went away.
func (c *Controller) restore(kind schema.GroupKind, uid types.UID, policy string) {
	c.note(uid, &changing{kind: kind, restored: []string{policy}})
	c.queue.Add(object{kind, uid})
}

// lookAgain has an object looked at once what is under way is done. It is noted, because by then
// nothing else may tell that there is a change to follow.
func (c *Controller) lookAgain(o object) {
	if !c.isChanging(o.uid) {
		c.note(o.uid, &changing{kind: o.kind})
	}
	c.queue.AddAfter(o, pendingRetry)
}

// note remembers a change, and what is still to be done about earlier ones of the object.
func (c *Controller) note(uid types.UID, change *changing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change.since = time.Now()
	if before := c.changing[uid]; before != nil {
		if before.base != "" && (change.base == "" || claims.MayChange(change.base, before.base)) {
			change.base = before.base
		}
		change.freed = union(before.freed, change.freed)
		change.restored = union(before.restored, change.restored)
	}
	c.changing[uid] = change
}

// union is what is in one list or in the other. There is one entry for a policy, so they are short.
func union[T comparable](a, b []T) []T {
	all := slices.Clone(a)
	for _, entry := range b {
		if !slices.Contains(all, entry) {
			all = append(all, entry)
		}
	}
	return all
}

func (c *Controller) isChanging(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.changing[uid]
	return ok
}

// modified has the claims of an object follow it.
func (c *Controller) modified(kind schema.GroupKind, uid types.UID) {
	if c.isChanging(uid) || c.hasChangeInFlight(uid) {
		c.queue.Add(object{kind, uid})
	}
}

// releaseOf identifies what an object frees by changing.
func releaseOf(uid types.UID) string { return "change:" + string(uid) }

func (c *Controller) hasChangeInFlight(uid types.UID) bool {
	for _, reservation := range c.Store.ReservationsFor(string(uid)) {
		if isForChange(reservation) {
			return true
		}
	}
	return false
}

// isForChange tells whether a reservation was made because its object was about to change.
func isForChange(reservation ledgerstore.InFlight) bool {
	if ledgerstore.IsAmendment(reservation.Key) {
		return true
	}
	intent, err := claims.IntentOf(reservation.Claim)
	return err == nil && intent.Base != ""
}

// changedLongAgo returns the objects whose update must have been made by now, or never will be, and
// forgets those that are gone.
func (c *Controller) changedLongAgo() []object {
	c.mu.Lock()
	defer c.mu.Unlock()
	var objects []object
	for uid, change := range c.changing {
		switch {
		case time.Since(change.since) <= c.Store.ReservationLifetime:
		case c.Objects.Presence(change.kind, uid) != objectcache.Present:
			delete(c.changing, uid)
		default:
			objects = append(objects, object{change.kind, uid})
		}
	}
	return objects
}

// follow brings the claims of an object in line with what policies ask of it now. While an update
// that was admitted may still be made, what was reserved for it stays.
func (c *Controller) follow(ctx context.Context, o object) error {
	c.mu.Lock()
	change := cmp.Or(c.changing[o.uid], &changing{})
	c.mu.Unlock()
	isPending, err := c.reconcileAll(ctx, o, change)
	if !isPending && err == nil || time.Since(change.since) >= pendingRetry {
		for _, consumer := range change.freed {
			c.Store.ReleaseDone(consumer, releaseOf(o.uid))
		}
	}
	if err != nil {
		return err
	}
	if isPending {
		c.queue.AddAfter(o, pendingRetry)
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changing[o.uid] == change {
		delete(c.changing, o.uid)
	}
	return nil
}

// reconcileAll reconciles an object with the policies that a change is for. Of others, that an object
// has no claim does not tell that it should: it may have come to meet their conditions since it was
// created.
func (c *Controller) reconcileAll(ctx context.Context, o object, change *changing) (isPending bool, err error) {
	if !c.Claims.HasSynced() {
		return true, nil // nobody else should have to wait for the list
	}
	versions := map[schema.GroupVersionKind]*unstructured.Unstructured{}
	var errs []error
	for _, p := range c.Catalog.PoliciesOf(o.kind) {
		if !p.FollowsUpdates() && !slices.Contains(change.restored, claims.LabelValue(p.Name)) {
			continue
		}
		live, known := versions[p.Trigger]
		if !known {
			if live, err = c.read(ctx, p.Trigger, o); err != nil {
				return false, err
			}
			versions[p.Trigger] = live
		}
		if live == nil {
			continue // it is gone, and what it holds goes with it
		}
		if change.base != "" && claims.MayChange(live.GetResourceVersion(), change.base) && time.Since(change.since) < c.Store.ReservationLifetime {
			return true, nil
		}
		result, err := c.Reconcile(ctx, p, live)
		isPending = isPending || result == Pending
		var transient *evaluator.TransientError
		switch {
		case errors.As(err, &transient):
			errs = append(errs, fmt.Errorf("apply ClaimCreationPolicy %s to %s %s: %w", p.Name, o.kind.Kind, live.GetName(), err))
		case err != nil:
			c.Log.Error(err, "the policy cannot be applied to the object any more, whose claim stays as it is",
				"policy", p.Name, "kind", o.kind.String(), "namespace", live.GetNamespace(), "name", live.GetName())
		}
	}
	return isPending, errors.Join(errs...)
}

// abandon ends what is reserved for a change of which the policy is gone: the claim tells whether
// the change was made.
func (c *Controller) abandon(ctx context.Context, reservation ledgerstore.InFlight) error {
	policy, _ := ledgerstore.SplitObjectKey(reservation.Key)
	for _, p := range c.Catalog.PoliciesOf(kindOf(reservation)) {
		if claims.LabelValue(p.Name) == policy && p.FollowsUpdates() {
			return nil
		}
	}
	if time.Since(reservation.KnownSince) < c.Store.ReservationLifetime {
		return nil
	}
	if !ledgerstore.IsAmendment(reservation.Key) {
		_, err := c.cancelUnmade(ctx, reservation)
		return err
	}
	held, err := c.amended(ctx, reservation)
	if err != nil {
		return err
	}
	if held == nil {
		return c.Store.Cancel(ctx, reservation.Consumer, reservation.Key, reservation.Sequence)
	}
	return c.retain(ctx, held, &reservation)
}

// amended returns the claim that an amendment is to change, or nil if it is gone. The cache cannot tell, because it
// may not show the claim yet: an amendment that ends before its claim leaves what that holds to be guessed.
func (c *Controller) amended(ctx context.Context, amendment ledgerstore.InFlight) (*quotav1alpha1.ResourceClaim, error) {
	intent, err := claims.IntentOf(amendment.Claim)
	if err != nil {
		return nil, err
	}
	claim, err := c.Client.Get(ctx, intent.Claim)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read claim %s, which is to change: %w", intent.Claim, err)
	}
	policy, uid := ledgerstore.SplitObjectKey(amendment.Key)
	if claims.PolicyOf(claim) != policy || claim.Annotations[quotav1alpha1.AnnotationResourceUID] != uid {
		return nil, nil // another claim has its name
	}
	return claim, nil
}

func kindOf(reservation ledgerstore.InFlight) schema.GroupKind {
	o, _ := objectOf(reservation)
	return o.kind
}

// read returns an object in one version, or nil if it is gone.
func (c *Controller) read(ctx context.Context, kind schema.GroupVersionKind, o object) (*unstructured.Unstructured, error) {
	name, ok := c.Objects.Name(o.kind, o.uid)
	if !ok {
		return nil, nil
	}
	return c.reread(ctx, kind, evaluator.Object{Kind: kind, Name: name, UID: o.uid})
}
