package operator

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/enforce"
	"github.com/bursar/bursar/internal/controller/allocation"
	"github.com/bursar/bursar/internal/controller/claim"
	"github.com/bursar/bursar/internal/controller/claimpolicy/evaluation"
	"github.com/bursar/bursar/internal/controller/follow"
	"github.com/bursar/bursar/internal/controller/grant"
	"github.com/bursar/bursar/internal/controller/quotarequest"
	"github.com/bursar/bursar/internal/kube/informer"
)

// declarations updates the catalog from the declarations of administrators, and notifies all listeners.
type declarations struct {
	cluster  *cluster
	quota    *quota
	leading  *leading
	follower *follow.Controller
	claims   *claim.Controller

	kindsChanged, policiesChanged, registrationsChanged changes
	synced                                              []cache.InformerSynced
}

func newDeclarations(c *cluster, q *quota, leading *leading, follower *follow.Controller, claims *claim.Controller) *declarations {
	d := &declarations{
		cluster: c, quota: q, leading: leading, follower: follower, claims: claims,
		kindsChanged: newChanges(), policiesChanged: newChanges(), registrationsChanged: newChanges(),
	}
	c.kinds.OnChange(func() {
		d.kindsChanged.notify()
		d.PoliciesChanged()
		leading.kindsChanged()
	})
	return d
}

// PoliciesChanged implements [claimpolicy.Listener].
func (d *declarations) PoliciesChanged() {
	d.policiesChanged.notify()
	d.leading.WakeWebhooks()
	d.follower.Wake()
	d.quota.watcher.Refresh()
}

func (d *declarations) registrationChanged() {
	d.registrationsChanged.notify()
	d.PoliciesChanged()
	d.leading.registrationsChanged()
	if d.quota.claims.HasSynced() {
		d.claims.RegistrationsChanged()
	}
}

// webhooksChanged is called after other kinds or policies became effective.
func (d *declarations) webhooksChanged() {
	d.policiesChanged.notify()
	for _, a := range d.quota.catalog.Allocations() {
		d.leading.allocationChanged(a.Name)
	}
}

// follow follows all declarations. They are in the catalog once all of d.synced return true.
func (d *declarations) follow(ctx context.Context, enforcer *enforce.Handler, evaluations *evaluation.Reporter) error {
	known := d.quota.catalog
	registrations := informer.Handler(
		func(object *quotav1alpha1.ResourceRegistration) {
			known.SetRegistration(object)
			d.registrationChanged()
		},
		func(name string) { known.RemoveRegistration(name); d.registrationChanged() },
	)
	policies := informer.Handler(
		func(object *quotav1alpha1.ClaimCreationPolicy) {
			_ = known.SetPolicy(object) // its own controller reports compile errors
			enforcer.InitPolicyMetrics(object.Name)
			d.PoliciesChanged()
		},
		func(name string) {
			known.RemovePolicy(name)
			evaluations.Forget(name)
			d.PoliciesChanged()
		},
	)
	return errors.Join(
		grant.IndexConsumers(ctx, d.cluster.manager.GetFieldIndexer()),
		quotarequest.IndexOpen(ctx, d.cluster.manager.GetFieldIndexer()),
		d.followInformer(ctx, &quotav1alpha1.ResourceRegistration{}, registrations),
		d.followInformer(ctx, &quotav1alpha1.ClaimCreationPolicy{}, policies),
	)
}

// followAllocations also notifies the controller of allocations of changed member namespaces and of edited projections.
func (d *declarations) followAllocations(ctx context.Context) error {
	changed := d.leading.allocationChanged
	allocations := informer.Handler(
		func(object *quotav1alpha1.ResourceQuotaAllocation) {
			// Reviews use the catalog. Until it has the new version, the earlier observation is out of date.
			d.quota.allocations.NoteVersion(object.Name, object.ResourceVersion)
			before := d.quota.catalog.AllocationsVersion()
			_ = d.quota.catalog.SetAllocation(object) // the controller reports invalid selectors
			if d.quota.catalog.AllocationsVersion() != before {
				d.leading.WakeWebhooks()
			}
			changed(object.Name)
		},
		func(name string) {
			d.quota.catalog.RemoveAllocation(name)
			d.quota.allocations.Forget(name)
			d.leading.WakeWebhooks()
			changed(name)
		},
	)
	d.quota.members.OnChange(d.leading.memberChanged)
	if err := allocation.IndexProjections(ctx, d.cluster.manager); err != nil {
		return fmt.Errorf("index the projections of allocations: %w", err)
	}
	projection := func(object any) {
		if key, err := cache.DeletionHandlingObjectToName(object); err == nil {
			changed(key.Name)
		}
	}
	// Only the metadata of ledgers is followed: it shows the admissions of other processes.
	ledgers := &metav1.PartialObjectMetadata{}
	ledgers.SetGroupVersionKind(quotav1alpha1.GroupVersion.WithKind("AllocationLedger"))
	written := func(object any) {
		ledger := object.(*metav1.PartialObjectMetadata)
		for _, owner := range ledger.OwnerReferences {
			d.quota.allocations.NoteLedgerVersion(owner.Name, owner.UID, ledger.ResourceVersion)
			changed(owner.Name)
		}
	}
	return errors.Join(
		d.followInformer(ctx, &quotav1alpha1.ResourceQuotaAllocation{}, allocations),
		d.followInformer(ctx, ledgers, cache.ResourceEventHandlerFuncs{AddFunc: written, UpdateFunc: func(_, object any) { written(object) }}),
		d.followInformer(ctx, &quotav1alpha1.LocalResourceQuotaAllocation{}, cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(_, object any) { projection(object) }, DeleteFunc: projection,
		}),
	)
}

// followInformer registers a handler for all objects of a kind.
func (d *declarations) followInformer(ctx context.Context, object client.Object, handler cache.ResourceEventHandler) error {
	synced, err := informer.Follow(ctx, d.cluster.manager.GetCache(), object, handler)
	d.synced = append(d.synced, synced)
	return err
}
