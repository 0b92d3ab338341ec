package grantpolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
)

// A policy has on record, in an annotation, the other control planes with its grants. The record comes before the first
// grant there. So a deleted policy waits for those control planes and for no others, also after a restart.

// recordOf returns the control planes on record of a policy. An invalid record counts as empty.
func recordOf(policy *quotav1alpha1.GrantCreationPolicy) []remote.Ref {
	var refs []remote.Ref
	if err := json.Unmarshal([]byte(policy.Annotations[quotav1alpha1.AnnotationControlPlanes]), &refs); err != nil {
		return nil
	}
	return refs
}

// recordedMax is the largest number of control planes on a policy's record before the controller drops unneeded ones.
// The annotations of an object may take 256 KiB.
const recordedMax = 500

// record puts another control plane on the record of a key's policy.
func (c *Controller) record(ctx context.Context, k key, ref remote.Ref) error {
	if ref.IsLocal() || c.isRecorded(k, ref) {
		return nil
	}
	c.recordMu.Lock()
	defer c.recordMu.Unlock()
	policy := c.policyOf(k)
	if policy == nil {
		return errors.New("the policy no longer exists")
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		stored := &quotav1alpha1.GrantCreationPolicy{}
		if err := c.Live.Get(ctx, types.NamespacedName{Name: policy.Name}, stored); err != nil {
			return err
		}
		if stored.UID != policy.UID || stored.Generation != policy.Generation || stored.DeletionTimestamp != nil {
			return errors.New("the policy has changed")
		}
		refs := recordOf(stored)
		if slices.Contains(refs, ref) {
			return nil
		}
		if len(refs) >= recordedMax {
			refs = c.stillNeeded(policy.UID, refs)
		}
		encoded, err := json.Marshal(append(refs, ref))
		if err != nil {
			return err
		}
		if stored.Annotations == nil {
			stored.Annotations = map[string]string{}
		}
		stored.Annotations[quotav1alpha1.AnnotationControlPlanes] = string(encoded)
		return c.Client.Update(ctx, stored)
	})
	if err != nil {
		return fmt.Errorf("record the control plane in an annotation of the policy: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recorded[k.policy] == nil {
		c.recorded[k.policy] = map[remote.Ref]bool{}
	}
	c.recorded[k.policy][ref] = true
	return nil
}

// stillNeeded returns the recorded control planes with possible grants of a policy.
func (c *Controller) stillNeeded(policy types.UID, refs []remote.Ref) []remote.Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.policies[policy]
	if s == nil {
		return refs
	}
	desired := map[remote.Ref]bool{}
	for _, o := range s.outcomes {
		desired[o.controlPlane] = true
	}
	var needed []remote.Ref
	for _, ref := range refs {
		p := c.controlPlanes[ref]
		if desired[ref] || p != nil && !p.isClean(policy, s.since) {
			needed = append(needed, ref)
		} else {
			delete(c.recorded[policy], ref)
		}
	}
	return needed
}

func (c *Controller) isRecorded(k key, ref remote.Ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recorded[k.policy][ref] {
		return true
	}
	s := c.policies[k.policy]
	return s != nil && slices.Contains(recordOf(s.object), ref)
}

// controlPlanesOf returns the recorded control planes of a policy after it stopped creating remote grants: those with
// its grants, certainly or possibly, and the names of those without a Secret.
func (c *Controller) controlPlanesOf(policy *quotav1alpha1.GrantCreationPolicy) (holding []*controlPlane, unregistered []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.policies[policy.UID]
	if s == nil {
		return nil, nil
	}
	refs := recordOf(policy)
	for ref := range c.recorded[policy.UID] {
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	for _, ref := range refs {
		switch p := c.controlPlanes[ref]; {
		case p == nil:
			unregistered = append(unregistered, ref.String())
		case !p.isClean(policy.UID, s.since):
			p.requestCompare()
			holding = append(holding, p)
		}
	}
	return holding, unregistered
}

// forgetRecord forgets the record of a policy after its removal from the policy.
func (c *Controller) forgetRecord(policy *quotav1alpha1.GrantCreationPolicy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.recorded, policy.UID)
}
