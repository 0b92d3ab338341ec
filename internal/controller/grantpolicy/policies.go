package grantpolicy

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
	"github.com/bursar/bursar/internal/policy"
)

// mode is what becomes of the grants of a policy.
type mode int

const (
	// dormant: they stay as they are, because the policy is paused or cannot be applied as things are.
	modeRetain mode = iota
	// active: they are made what the policy says.
	modeApply
	// off: they are deleted, because the policy is deleted or its kind is not there any more.
	modeDelete
)

// policyState is what the controller knows of one policy, guarded by the controller's lock. When
// the policy's generation or mode changes, its state is replaced.
type policyState struct {
	// object is the policy as it was seen last. Its spec stays.
	object *quotav1alpha1.GrantCreationPolicy
	// compiled is that generation of the policy, or nil if it has faults. A policy that is
	// paused or deleted has neither. Both stay.
	compiled *policy.GrantPolicy
	errs     field.ErrorList
	mode     mode
	// since is when the state was set.
	since time.Time
	// resource is what the trigger's objects are watched by, while the policy is active.
	resource schema.GroupVersionResource

	throttle throttle
	// outcomes are by the UIDs of the objects. Those from before the state was set have generation 0:
	// they only tell what was said about an object then.
	outcomes map[types.UID]*outcome
	// unseen are the objects that have not been evaluated since the policy changed.
	unevaluated map[types.UID]struct{}
}

func (s *policyState) uid() types.UID { return s.object.UID }

func (s *policyState) trigger() schema.GroupVersionKind { return triggerOf(s.object) }

func triggerOf(object *quotav1alpha1.GrantCreationPolicy) schema.GroupVersionKind {
	resource := object.Spec.Trigger.Resource
	return schema.FromAPIVersionAndKind(resource.APIVersion, resource.Kind)
}

// outcome is what a policy says about one object. It is immutable.
type outcome struct {
	// generation is that of the policy.
	generation int64
	// grant is what the policy asks for, or nil if it asks for nothing or err is set.
	grant *quotav1alpha1.ResourceGrant
	// controlPlane is where the grant should be. It is set if matches is and unresolved is not.
	controlPlane remote.Ref
	// matches tells that the conditions hold.
	matches bool
	// unresolved is why it cannot be told which control plane the grant should be in.
	unresolved error
	// err is why it cannot be told what the policy asks for.
	err error
}

// followPolicies has policies looked at when they change.
func (c *Controller) followPolicies(ctx context.Context) error {
	informer, err := c.Cache.GetInformer(ctx, &quotav1alpha1.GrantCreationPolicy{})
	if err != nil {
		return err
	}
	enqueue := func(object any) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			c.policyQueue.Add(name)
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, DeleteFunc: enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	})
	return err
}

// setPolicy replaces the state of a policy if it differs, and has everything looked at again that
// depends on it.
func (c *Controller) setPolicy(s *policyState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.outcomes, s.unevaluated = map[types.UID]*outcome{}, map[types.UID]struct{}{}
	for uid, other := range c.policies {
		if other.object.Name == s.object.Name && uid != s.uid() {
			delete(c.policies, uid) // it is gone, and its name was given away
		}
	}
	if before := c.policies[s.uid()]; before != nil {
		if before.object.Generation == s.object.Generation && before.mode == s.mode && before.resource == s.resource {
			before.object = s.object
			return
		}
		for uid, o := range before.outcomes {
			old := *o
			old.generation = 0
			s.outcomes[uid] = &old
		}
	}
	s.since = time.Now()
	c.policies[s.uid()] = s
	c.followLocked()
	c.evaluateAllLocked(s)
	c.applyAllLocked(s.uid())
}

// removePolicy forgets the policy of that name, which is gone.
func (c *Controller) removePolicy(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, s := range c.policies {
		if s.object.Name == name {
			delete(c.policies, uid)
			delete(c.recorded, uid)
		}
	}
	c.followLocked()
}

// policyOf returns the policy of a key as it was seen last, or nil.
func (c *Controller) policyOf(k key) *quotav1alpha1.GrantCreationPolicy {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.policies[k.policy]; s != nil {
		return s.object
	}
	return nil
}

// applyAllLocked has the grants of a policy that exist compared with what the policy wants.
func (c *Controller) applyAllLocked(policy types.UID) {
	for _, p := range c.controlPlanes {
		p.enqueueAll(policy)
	}
}

// want returns the grant that a key should have in a control plane, or nil for none; false if that
// cannot be told now.
func (c *Controller) desiredGrant(k key, ref remote.Ref) (*quotav1alpha1.ResourceGrant, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.policies[k.policy]
	switch {
	case s == nil || s.mode == modeRetain:
		return nil, false
	case s.mode == modeDelete:
		return nil, true
	}
	f := c.followers[s.trigger()]
	if f == nil {
		return nil, false
	}
	o := s.outcomes[k.object]
	switch {
	case o == nil:
		_, unseen := s.unevaluated[k.object]
		return nil, f.hasSynced() && !unseen && f.get(k.object) == nil
	case o.generation != s.object.Generation || o.err != nil:
		return nil, false
	case o.controlPlane != ref:
		return nil, true
	default:
		return o.grant, true
	}
}

// desiredKeys returns the keys that should have a grant in a control plane.
func (c *Controller) desiredKeys(ref remote.Ref) []key {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []key
	for uid, s := range c.policies {
		if s.mode != modeApply {
			continue
		}
		for object, o := range s.outcomes {
			if o.grant != nil && o.controlPlane == ref {
				keys = append(keys, key{uid, object})
			}
		}
	}
	return keys
}
