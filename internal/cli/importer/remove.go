package importer

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bursar/bursar/internal/cli/quotakinds"
)

const (
	// concurrency is how many requests run at the same time.
	concurrency = 16
	// removeTimeout bounds the wait for deleted objects of one kind without progress.
	removeTimeout = 10 * time.Minute
)

// Removed are the deleted objects of a removal, by resource.
type Removed struct {
	Resources []string
	Counts    map[string]int
	// InPlace is the number of objects older than their import. They stay as they are, without its marks.
	InPlace int
}

// Remove deletes all objects written by imports from a former system. Policies go first, to end enforcement, then their
// claims, and then the objects used by these. The former system stays as it is, and so do objects older than their
// import.
func Remove(ctx context.Context, o Options) (*Removed, error) {
	i, err := newImporter(o)
	if err != nil {
		return nil, err
	}
	removed := &Removed{Counts: map[string]int{}}
	for _, resource := range []schema.GroupVersionResource{claimPolicies, grantPolicies, claimsAPI, grants, registrations, consumersAPI, clusterRoles} {
		count, inPlace, err := i.removeAll(ctx, resource)
		removed.InPlace += inPlace
		if count > 0 {
			removed.Resources = append(removed.Resources, resource.GroupResource().String())
			removed.Counts[resource.GroupResource().String()] = count
		}
		if err != nil {
			return removed, err
		}
	}
	if o.DryRun {
		return removed, nil
	}
	if err := i.unlabel(ctx, func(string) bool { return true }); err != nil {
		return removed, err
	}
	return removed, i.removeDefinition(ctx)
}

// removeAll deletes the imported objects of a resource, and waits until they are gone. It returns the numbers of
// objects to delete, and of those to keep because they are older than their import.
func (i *importer) removeAll(ctx context.Context, resource schema.GroupVersionResource) (count, inPlace int, err error) {
	all, err := i.imported(ctx, resource)
	for j := range all {
		if isInPlace(&all[j]) {
			inPlace++
		}
	}
	count = len(all) - inPlace
	if err != nil || len(all) == 0 || i.DryRun {
		return count, inPlace, err
	}
	group, deleting := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for j := range all {
		group.Go(func() error {
			if isInPlace(&all[j]) {
				return i.unmark(deleting, resource, &all[j])
			}
			return i.remove(deleting, resource, &all[j])
		})
	}
	if err := group.Wait(); err != nil {
		return count, inPlace, err
	}
	var left []unstructured.Unstructured
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, removeTimeout, true, func(ctx context.Context) (bool, error) {
		left, err = i.imported(ctx, resource)
		return len(left) == 0, err
	})
	if err != nil {
		return count, inPlace, fmt.Errorf("%d %s are still being deleted: run the same command again later: %w", len(left), resource.GroupResource(), err)
	}
	return count, inPlace, nil
}

func isInPlace(object metav1.Object) bool {
	return object.GetAnnotations()[AnnotationImportedInPlace] == "true"
}

// unmark removes the marks of the import from an object older than it.
func (i *importer) unmark(ctx context.Context, resource schema.GroupVersionResource, object metav1.Object) error {
	patch := []byte(`{"metadata":{"labels":{"` + LabelImportedFrom + `":null},"annotations":{"` + AnnotationImportedInPlace + `":null}}}`)
	_, err := i.api.Resource(resource).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the marks of the import from %s of %s: %w", object.GetName(), resource.GroupResource(), err)
	}
	return nil
}

// removeDefinition deletes the kind of consumers once no import uses it.
func (i *importer) removeDefinition(ctx context.Context) error {
	left := false
	_, err := quotakinds.Each(ctx, i.api, consumersAPI, "", func(*unstructured.Unstructured) error { left = true; return nil })
	if apierrors.IsNotFound(err) || err == nil && left {
		return nil
	}
	if err != nil {
		return err
	}
	if err := i.remove(ctx, definitions, consumerDefinition()); err != nil {
		return err
	}
	return i.awaitDeletion(ctx, definitions, consumerDefinition().GetName())
}
