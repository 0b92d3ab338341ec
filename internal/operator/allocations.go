package operator

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/allocation"
)

// followAllocations keeps the catalog in step with allocations, and has their controller hear of them, of their
// projects, and of what others do to their projections.
func (p *parts) followAllocations(ctx context.Context) error {
	allocations := handlers[*quotav1alpha1.ResourceQuotaAllocation]{
		set: func(object *quotav1alpha1.ResourceQuotaAllocation) {
			// Before it is in the catalog, by which reviews go, what was known of it is out of date.
			p.allocations.Heard(object.Name, object.ResourceVersion)
			before := p.catalog.AllocationsVersion()
			// Why a selector is none is for the controller to say.
			_ = p.catalog.SetAllocation(object)
			if p.catalog.AllocationsVersion() != before {
				p.webhooks.Wake()
			}
			p.allocation.AllocationChanged(object.Name)
		},
		remove: func(name string) {
			p.catalog.RemoveAllocation(name)
			p.allocations.Forget(name)
			p.webhooks.Wake()
			p.allocation.AllocationChanged(name)
		},
		changed: func() {},
	}
	if err := p.followInformer(ctx, &quotav1alpha1.ResourceQuotaAllocation{}, allocations.forInformer()); err != nil {
		return err
	}
	if err := p.followInformer(ctx, allocationLedgers(), p.allocationLedgerHandlers()); err != nil {
		return err
	}
	p.projects.OnChange(p.allocation.ProjectChanged)
	if err := allocation.IndexProjections(ctx, p.manager); err != nil {
		return fmt.Errorf("index the projections of allocations: %w", err)
	}
	changed := func(object any) {
		if key, err := cache.DeletionHandlingObjectToName(object); err == nil {
			p.allocation.AllocationChanged(key.Name)
		}
	}
	return p.followInformer(ctx, &quotav1alpha1.LocalResourceQuotaAllocation{}, cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) { changed(object) }, DeleteFunc: changed,
	})
}

// allocationLedgers are those of allocations, of which nothing but the metadata is followed.
func allocationLedgers() *metav1.PartialObjectMetadata {
	ledgers := &metav1.PartialObjectMetadata{}
	ledgers.SetGroupVersionKind(quotav1alpha1.GroupVersion.WithKind("AllocationLedger"))
	return ledgers
}

// allocationLedgerHandlers tell what other processes admit.
func (p *parts) allocationLedgerHandlers() cache.ResourceEventHandler {
	written := func(object any) {
		ledger := object.(*metav1.PartialObjectMetadata)
		for _, owner := range ledger.OwnerReferences {
			p.allocations.HeardLedger(owner.Name, owner.UID, ledger.ResourceVersion)
			p.allocation.AllocationChanged(owner.Name)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: written, UpdateFunc: func(_, object any) { written(object) }}
}

// namespaceOf asks the API server for a namespace, and returns nil if there is none.
func (o *Operator) namespaceOf(ctx context.Context, namespace string) (*metav1.PartialObjectMetadata, error) {
	object, err := o.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up namespace %s: %w", namespace, err)
	}
	return object, nil
}

// maySee tells whether a user may see how much a project takes of an allocation or, without a project, how much
// all do. Bursar itself sees none: what it is told is told to tenants.
func (o *Operator) maySee(ctx context.Context, user authenticationv1.UserInfo, allocation, project string) (bool, error) {
	if user.Username == o.options.Username {
		return false, nil
	}
	what := authorizationv1.ResourceAttributes{Verb: "get", Group: quotav1alpha1.GroupName, Resource: "resourcequotaallocations", Name: allocation}
	if project != "" {
		what.Resource, what.Namespace = "localresourcequotaallocations", project
	}
	return o.may(ctx, user, what)
}

// mayEditAllocation tells whether a user may change an allocation.
func (o *Operator) mayEditAllocation(ctx context.Context, user authenticationv1.UserInfo, allocation string) (bool, error) {
	return o.may(ctx, user, authorizationv1.ResourceAttributes{
		Verb: "update", Group: quotav1alpha1.GroupName, Resource: "resourcequotaallocations", Name: allocation,
	})
}

// mayEditDefinitions tells whether a user may change the definitions of a QuotaServiceConfig.
func (o *Operator) mayEditDefinitions(ctx context.Context, user authenticationv1.UserInfo, config string) (bool, error) {
	return o.may(ctx, user, authorizationv1.ResourceAttributes{
		Verb: "update", Group: openmcpv1alpha1.GroupName, Resource: "quotaserviceconfigs", Name: config,
	})
}
