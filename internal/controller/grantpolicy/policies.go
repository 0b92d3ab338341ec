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

// mode is how the controller handles the grants of a policy.
type mode int

const (
	// modeRetain keeps the grants unchanged: the policy is paused or inapplicable.
	modeRetain mode = iota
	// modeApply makes the grants match the policy.
	modeApply
	// modeDelete deletes the grants: the policy is deleted or its kind no longer exists.
	modeDelete
)

// policyState is the state of one policy, guarded by the controller's lock. A change of the policy's generation or mode
// replaces it.
type policyState struct {
	// object is the latest version of the policy. Its spec does not change.
	object *quotav1alpha1.GrantCreationPolicy
	// compiled is the compiled policy, or nil if it is invalid (errs). A paused or deleted policy has neither. Both do
	// not change.
	compiled *policy.GrantPolicy
	errs     field.ErrorList
	mode     mode
	// since is the time of the state's beginning.
	since time.Time
	// resource is the watched resource of the trigger, while the policy is active.
	resource schema.GroupVersionResource

	throttle throttle
	// outcomes are by the UIDs of the objects. Outcomes from before the state have generation 0: they only hold earlier
	// results.
	outcomes map[types.UID]*outcome
	// unevaluated are the objects without an evaluation since the policy changed.
	unevaluated map[types.UID]struct{}
}

func (s *policyState) uid() types.UID { return s.object.UID }

func (s *policyState) trigger() schema.GroupVersionKind { return triggerOf(s.object) }

func triggerOf(object *quotav1alpha1.GrantCreationPolicy) schema.GroupVersionKind {
	resource := object.Spec.Trigger.Resource
	return schema.FromAPIVersionAndKind(resource.APIVersion, resource.Kind)
}

// outcome is the result of a policy for one object. It is immutable.
type outcome struct {
	// generation is the policy's generation.
	generation int64
	// grant is the desired grant, or nil if there is none or err is not nil.
	grant *quotav1alpha1.ResourceGrant
	// controlPlane is the desired location of the grant. It is valid if matches is true and unresolved is nil.
	controlPlane remote.Ref
	// matches reports whether the conditions hold.
	matches bool
	// unresolved is the reason for an unknown control plane.
	unresolved error
	// err is the reason for an unknown grant.
	err error
}

// followPolicies queues policies when they change.
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

// setPolicy replaces the state of a policy if it differs, and queues all dependent work.
func (c *Controller) setPolicy(s *policyState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.outcomes, s.unevaluated = map[types.UID]*outcome{}, map[types.UID]struct{}{}
	for uid, other := range c.policies {
		if other.object.Name == s.object.Name && uid != s.uid() {
			delete(c.policies, uid) // it is gone, and another policy has its name
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

// removePolicy forgets the deleted policy with the name.
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

// policyOf returns the latest version of the policy of a key, or nil.
func (c *Controller) policyOf(k key) *quotav1alpha1.GrantCreationPolicy {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.policies[k.policy]; s != nil {
		return s.object
	}
	return nil
}

// applyAllLocked queues all existing grants of a policy.
func (c *Controller) applyAllLocked(policy types.UID) {
	for _, p := range c.controlPlanes {
		p.enqueueAll(policy)
	}
}

// desiredGrant returns the desired grant of a key in a control plane, or nil for none; false if it is unknown now.
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

// desiredKeys returns the keys with a desired grant in a control plane.
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
