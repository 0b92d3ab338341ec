package grantpolicy

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
	"github.com/bursar/bursar/internal/kube/worker"
)

// addLocalControlPlane adds the local control plane, and watches its grants.
func (c *Controller) addLocalControlPlane(ctx context.Context) error {
	p := newControlPlane(c, remote.Ref{}, c.Client, nil)
	c.controlPlanes[p.ref] = p
	informer, err := c.Cache.GetInformer(ctx, &quotav1alpha1.ResourceGrant{})
	if err != nil {
		return err
	}
	handle, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    p.grantChanged,
		UpdateFunc: func(_, object any) { p.grantChanged(object) },
		DeleteFunc: p.grantDeleted,
	})
	if err != nil {
		return err
	}
	if !cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
		return ctx.Err()
	}
	p.mu.Lock()
	p.listed, p.isContacted = true, true
	p.mu.Unlock()
	c.tasks.Go(func() { worker.Run(ctx, p.queue, localWorkers, p.process, p.failed) })
	return nil
}

func (p *controlPlane) grantChanged(object any) {
	grant, ok := object.(*quotav1alpha1.ResourceGrant)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.grants.put(grant) {
		p.queue.Add(k)
	}
}

func (p *controlPlane) grantDeleted(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	grant, ok := object.(*quotav1alpha1.ResourceGrant)
	if !ok {
		return
	}
	p.mu.Lock()
	k, ok := p.grants.remove(nameOf(grant), grant.UID)
	if !ok {
		k, ok = keyOf(grant)
	}
	p.mu.Unlock()
	if ok {
		p.queue.Add(k)
		p.owner.wakeIfClean(k.policy)
	}
}

// hasNoLocalGrants asks the API server whether a policy has no grant in this control plane.
func (c *Controller) hasNoLocalGrants(ctx context.Context, policy *quotav1alpha1.GrantCreationPolicy) (bool, error) {
	var list quotav1alpha1.ResourceGrantList
	err := c.Live.List(ctx, &list, client.MatchingLabels{quotav1alpha1.LabelPolicyUID: string(policy.UID)}, client.Limit(1))
	if err != nil {
		return false, fmt.Errorf("look for grants of GrantCreationPolicy %s: %w", policy.Name, err)
	}
	return len(list.Items) == 0, nil
}
