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
)

const (
	// showInterval is how often an allocation is shown in its projects at most. Where that takes long, it rests
	// restFactor times as long as it took.
	showInterval = time.Second
	restFactor   = 4
	// byName is the index of projections by their names.
	byName = "metadata.name"
)

// IndexProjections makes projections be found by the allocation that they show.
func IndexProjections(ctx context.Context, manager ctrl.Manager) error {
	return manager.GetFieldIndexer().IndexField(ctx, &quotav1alpha1.LocalResourceQuotaAllocation{}, byName,
		func(object client.Object) []string { return []string{object.GetName()} })
}

// isDue tells whether an allocation may be shown now.
func (c *Controller) isDue(name string) bool { return !time.Now().Before(c.of(name).showAt) }

// shown notes how long it took.
func (c *Controller) shown(name string, took time.Duration) {
	c.of(name).showAt = time.Now().Add(max(showInterval, restFactor*took))
}

// show brings the projections of an allocation in line. Nothing is written where they are.
func (c *Controller) show(ctx context.Context, l look) error {
	var list quotav1alpha1.LocalResourceQuotaAllocationList
	if err := c.Client.List(ctx, &list, client.MatchingFields{byName: l.object.Name}); err != nil {
		return fmt.Errorf("list the projections of ResourceQuotaAllocation %s: %w", l.object.Name, err)
	}
	var errs []error
	there := map[string]bool{}
	for i := range list.Items {
		projection := &list.Items[i]
		there[projection.Namespace] = true
		if status, wanted := l.local[projection.Namespace]; wanted {
			errs = append(errs, c.update(ctx, projection, l.object, status))
		} else {
			errs = append(errs, c.remove(ctx, projection))
		}
	}
	for project, status := range l.local {
		if !there[project] {
			errs = append(errs, c.create(ctx, project, l.object, status))
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) create(ctx context.Context, project string, of *quotav1alpha1.ResourceQuotaAllocation, status quotav1alpha1.LocalResourceQuotaAllocationStatus) error {
	projection := &quotav1alpha1.LocalResourceQuotaAllocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: of.Name, OwnerReferences: ownedBy(of)},
		Spec:       of.Spec, Status: status,
	}
	err := c.Client.Create(ctx, projection)
	if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the namespace is gone or going, or the watch is behind
	}
	return failed("show", projection, err)
}

func (c *Controller) update(ctx context.Context, projection *quotav1alpha1.LocalResourceQuotaAllocation, of *quotav1alpha1.ResourceQuotaAllocation, status quotav1alpha1.LocalResourceQuotaAllocationStatus) error {
	updated := projection.DeepCopy()
	updated.OwnerReferences, updated.Spec, updated.Status = ownedBy(of), of.Spec, status
	if equality.Semantic.DeepEqual(projection, updated) {
		return nil
	}
	err := c.Client.Update(ctx, updated)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // its successor is on its way here
	}
	return failed("update", projection, err)
}

func (c *Controller) remove(ctx context.Context, projection *quotav1alpha1.LocalResourceQuotaAllocation) error {
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

// ownedBy has the garbage collector remove a projection together with its allocation.
func ownedBy(of *quotav1alpha1.ResourceQuotaAllocation) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceQuotaAllocation", Name: of.Name, UID: of.UID, Controller: new(true),
	}}
}
