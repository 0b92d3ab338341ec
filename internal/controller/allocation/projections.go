package allocation

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	caps "github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/allocation/allocationstore"
)

const (
	// publishDelay is how long a change of an allocation waits for more before its publication.
	publishDelay = 500 * time.Millisecond
	// projectionWritesPerSecond bounds the writes of projections. Each change of a ResourceQuota outdates the
	// projections in all member namespaces of its allocation.
	projectionWritesPerSecond = 50
	// byName indexes projections by name.
	byName = "metadata.name"
)

// IndexProjections indexes projections by the name of their allocation.
func IndexProjections(ctx context.Context, manager ctrl.Manager) error {
	return manager.GetFieldIndexer().IndexField(ctx, &quotav1alpha1.LocalResourceQuotaAllocation{}, byName,
		func(object client.Object) []string { return []string{object.GetName()} })
}

// publish reconciles the projections of an allocation. It writes only differences.
func (c *Controller) publish(ctx context.Context, name string) error {
	var of *quotav1alpha1.ResourceQuotaAllocation
	local := map[string]quotav1alpha1.LocalResourceQuotaAllocationStatus{}
	err := c.Ledgers.View(ctx, name, func(b *caps.State) {
		clear(local)
		of = b.Object()
		for _, namespace := range c.Members.Selected(b.Selector()) {
			local[namespace] = b.Local(namespace)
		}
	})
	if errors.Is(err, allocationstore.ErrGone) {
		return nil // the garbage collector removes them
	}
	if err != nil {
		return err
	}
	var list quotav1alpha1.LocalResourceQuotaAllocationList
	if err := c.Client.List(ctx, &list, client.MatchingFields{byName: name}); err != nil {
		return fmt.Errorf("list the projections of ResourceQuotaAllocation %s: %w", name, err)
	}
	var errs []error
	there := map[string]bool{}
	for i := range list.Items {
		projection := &list.Items[i]
		there[projection.Namespace] = true
		if status, desired := local[projection.Namespace]; desired {
			errs = append(errs, c.update(ctx, projection, of, status))
		} else {
			errs = append(errs, c.remove(ctx, projection))
		}
	}
	for namespace, status := range local {
		if !there[namespace] {
			errs = append(errs, c.create(ctx, namespace, of, status))
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) create(ctx context.Context, namespace string, of *quotav1alpha1.ResourceQuotaAllocation, status quotav1alpha1.LocalResourceQuotaAllocationStatus) error {
	projection := &quotav1alpha1.LocalResourceQuotaAllocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: of.Name, OwnerReferences: ownedBy(of)},
		Spec:       *of.Spec.DeepCopy(), Status: status,
	}
	if err := c.writes.Wait(ctx); err != nil {
		return err
	}
	err := c.Client.Create(ctx, projection)
	if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the namespace is gone or going, or the watch is behind
	}
	return failed("show", projection, err)
}

func (c *Controller) update(ctx context.Context, projection *quotav1alpha1.LocalResourceQuotaAllocation, of *quotav1alpha1.ResourceQuotaAllocation, status quotav1alpha1.LocalResourceQuotaAllocationStatus) error {
	updated := projection.DeepCopy()
	updated.OwnerReferences, updated.Spec, updated.Status = ownedBy(of), *of.Spec.DeepCopy(), status
	if equality.Semantic.DeepEqual(projection, updated) {
		return nil
	}
	if err := c.writes.Wait(ctx); err != nil {
		return err
	}
	err := c.Client.Update(ctx, updated)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // an event follows its newer version
	}
	return failed("update", projection, err)
}

func (c *Controller) remove(ctx context.Context, projection *quotav1alpha1.LocalResourceQuotaAllocation) error {
	if err := c.writes.Wait(ctx); err != nil {
		return err
	}
	err := c.Client.Delete(ctx, projection, client.Preconditions{UID: &projection.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return failed("remove", projection, err)
}

func failed(verb string, projection *quotav1alpha1.LocalResourceQuotaAllocation, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s LocalResourceQuotaAllocation %s/%s: %w", verb, projection.Namespace, projection.Name, err)
}

// ownedBy makes the garbage collector delete a projection together with its allocation.
func ownedBy(of *quotav1alpha1.ResourceQuotaAllocation) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceQuotaAllocation", Name: of.Name, UID: of.UID, Controller: new(true),
	}}
}
