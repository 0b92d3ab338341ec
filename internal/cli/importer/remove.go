package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

const (
	// concurrency is how many requests run at the same time.
	concurrency = 16
	// removeTimeout bounds the wait for deleted objects of one kind while their number stays the same.
	removeTimeout = 10 * time.Minute
	// countInterval is the longest time between two counts of deleted objects. It begins with countIntervalMin.
	countInterval, countIntervalMin = 5 * time.Second, 100 * time.Millisecond
	// metadataPage is how many objects one request lists.
	metadataPage = 2000
)

// Removed are the deleted objects of a removal, by resource.
type Removed struct {
	Resources []string
	Counts    map[string]int
	// InPlace is the number of objects older than their import. They stay as they are, without its marks.
	InPlace int
}

// Remove deletes all objects written by imports from a former system. Policies go first, to end enforcement, then their
// claims, and then the objects used by these. The former system stays as it is. So do objects older than their import,
// and their policies get back the mode from before it.
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
	if err := i.unlist(ctx, func(string) bool { return false }); err != nil {
		return removed, err
	}
	return removed, i.removeShared(ctx)
}

// removeAll deletes the imported objects of a resource, and waits until they are gone. It returns the numbers of
// objects to delete, and of those to keep because they are older than their import.
func (i *importer) removeAll(ctx context.Context, resource schema.GroupVersionResource) (count, inPlace int, err error) {
	all, err := i.importedMetadata(ctx, resource)
	for _, object := range all {
		if isInPlace(object) {
			inPlace++
		}
	}
	count = len(all) - inPlace
	if err != nil || len(all) == 0 || i.DryRun {
		return count, inPlace, err
	}
	return count, inPlace, i.removeObjects(ctx, resource, all)
}

// importedMetadata lists the metadata of the objects of a resource written by imports from the former system. There may
// be very many claims.
func (i *importer) importedMetadata(ctx context.Context, resource schema.GroupVersionResource) ([]metav1.Object, error) {
	return i.listMetadata(ctx, resource, quotav1alpha1.LabelImportedFrom+"="+i.From, func(metav1.Object) bool { return true })
}

// listMetadata lists the metadata of the wanted objects of a resource.
func (i *importer) listMetadata(ctx context.Context, resource schema.GroupVersionResource, labels string, isWanted func(metav1.Object) bool) ([]metav1.Object, error) {
	var all []metav1.Object
	options := metav1.ListOptions{LabelSelector: labels, Limit: metadataPage}
	for {
		page, err := i.metadata.Resource(resource).List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list the metadata of %s: %w", resource.GroupResource(), err)
		}
		for n := range page.Items {
			if isWanted(&page.Items[n]) {
				all = append(all, &page.Items[n])
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// removeObjects deletes imported objects of a resource, or removes the marks of those older than their import. It waits
// until this is done.
func (i *importer) removeObjects(ctx context.Context, resource schema.GroupVersionResource, all []metav1.Object) error {
	group, deleting := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	isRemoved := map[types.UID]bool{}
	for _, object := range all {
		isRemoved[object.GetUID()] = true
		group.Go(func() error {
			if isInPlace(object) {
				return i.unmark(deleting, resource, object)
			}
			return i.remove(deleting, resource, object)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return i.awaitRemoval(ctx, resource, isRemoved)
}

// awaitRemoval waits until removed objects of a resource are gone, as long as their number falls.
func (i *importer) awaitRemoval(ctx context.Context, resource schema.GroupVersionResource, isRemoved map[types.UID]bool) error {
	least, since := len(isRemoved), time.Now()
	for interval := countIntervalMin; ; interval = min(2*interval, countInterval) {
		present, err := i.importedMetadata(ctx, resource)
		left := 0
		for _, object := range present {
			if isRemoved[object.GetUID()] {
				left++
			}
		}
		if left == 0 && err == nil {
			return nil
		}
		if left < least {
			least, since = left, time.Now()
		}
		if err == nil && time.Since(since) >= removeTimeout {
			err = fmt.Errorf("none was deleted in %s", removeTimeout)
		}
		if err == nil {
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-time.After(interval):
				continue
			}
		}
		return fmt.Errorf("%d %s are still being deleted: run the same command again later: %w", least, resource.GroupResource(), err)
	}
}

// prune deletes objects of earlier imports without use.
func (i *importer) prune(ctx context.Context, before *earlier, isUsed func(schema.GroupVersionResource, metav1.Object) bool, resources ...schema.GroupVersionResource) error {
	for _, resource := range resources {
		var unused []metav1.Object
		for _, object := range before.objects[resource] {
			if !isUsed(resource, object) {
				unused = append(unused, object)
			}
		}
		if len(unused) == 0 {
			continue
		}
		if err := i.removeObjects(ctx, resource, unused); err != nil {
			return err
		}
	}
	return nil
}

// removeClaimsWithoutPolicy deletes the claims of deleted policies, also those left by an import that was interrupted.
// Other policies may charge their objects now, and nothing may be charged twice.
func (i *importer) removeClaimsWithoutPolicy(ctx context.Context, before *earlier) error {
	if len(before.objects) == 0 {
		return nil // it is the first import
	}
	var isOrphan func(claim metav1.Object) bool
	readPolicies := func() error {
		exists := map[string]bool{}
		_, err := i.listMetadata(ctx, claimPolicies, "", func(policy metav1.Object) bool {
			exists[claims.LabelValue(policy.GetName())] = true
			return false
		})
		isOrphan = func(claim metav1.Object) bool {
			policy := claim.GetLabels()[quotav1alpha1.LabelPolicy]
			return policy != "" && !exists[policy]
		}
		return err
	}
	if err := readPolicies(); err != nil {
		return err
	}
	orphans, err := i.listMetadata(ctx, claimsAPI, quotav1alpha1.LabelImportedFrom+"="+i.From, isOrphan)
	if err != nil || len(orphans) == 0 {
		return err
	}
	if err := readPolicies(); err != nil { // again: somebody may have made a policy, and it claims, since the first look
		return err
	}
	orphans = slices.DeleteFunc(orphans, func(claim metav1.Object) bool { return !isOrphan(claim) })
	return i.removeObjects(ctx, claimsAPI, orphans)
}

// remove deletes an object. Bursar denies the deletion of a claim until it knows that the policy is deleted.
func (i *importer) remove(ctx context.Context, resource schema.GroupVersionResource, object metav1.Object) error {
	err := retry.OnError(claimDeletion, func(err error) bool { return resource == claimsAPI && apierrors.IsForbidden(err) }, func() error {
		return i.api.Resource(resource).Namespace(object.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{})
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s of %s: %w", object.GetName(), resource.GroupResource(), err)
	}
	return nil
}

// claimDeletion is the schedule of attempts to delete the claim of a deleted policy.
var claimDeletion = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 8}

// unlist removes the annotation of this import from namespaces without limits of their own.
func (i *importer) unlist(ctx context.Context, isLimited func(namespace string) bool) error {
	key := quotav1alpha1.AnnotationImportedLimits + i.From
	patch := []byte(`{"metadata":{"annotations":{"` + key + `":null}}}`)
	var listed []string
	_, err := quotakinds.Each(ctx, i.api, namespacesAPI, "", func(namespace *unstructured.Unstructured) error {
		if _, isListed := namespace.GetAnnotations()[key]; isListed && !isLimited(namespace.GetName()) {
			listed = append(listed, namespace.GetName())
		}
		return nil
	})
	if err != nil {
		return err
	}
	group, patching := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for _, name := range listed {
		group.Go(func() error {
			_, err := i.api.Resource(namespacesAPI).Patch(patching, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("remove the annotation %s of namespace %s: %w", key, name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func isInPlace(object metav1.Object) bool {
	return object.GetAnnotations()[quotav1alpha1.AnnotationImportedInPlace] == "true"
}

// unmark removes the marks of the import from an object older than it, and restores the mode of a policy.
func (i *importer) unmark(ctx context.Context, resource schema.GroupVersionResource, object metav1.Object) error {
	patch := map[string]any{"metadata": map[string]any{
		"labels":      map[string]any{quotav1alpha1.LabelImportedFrom: nil},
		"annotations": map[string]any{quotav1alpha1.AnnotationImportedInPlace: nil, quotav1alpha1.AnnotationImportedMode: nil},
	}}
	if mode := object.GetAnnotations()[quotav1alpha1.AnnotationImportedMode]; resource == claimPolicies && mode != "" {
		patch["spec"] = map[string]any{"enforcementMode": mode}
	}
	content, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode the marks of %s: %w", object.GetName(), err)
	}
	_, err = i.api.Resource(resource).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.MergePatchType, content, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the marks of the import from %s of %s: %w", object.GetName(), resource.GroupResource(), err)
	}
	return nil
}

// removeShared deletes the kind of consumers, and the protection of their namespaces, once no import uses them.
func (i *importer) removeShared(ctx context.Context) error {
	left := false
	_, err := quotakinds.Each(ctx, i.api, consumersAPI, "", func(*unstructured.Unstructured) error { left = true; return nil })
	if apierrors.IsNotFound(err) || err == nil && left {
		return nil
	}
	if err != nil {
		return err
	}
	for _, each := range protection() {
		if err := i.remove(ctx, each.resource, each.object); err != nil {
			return err
		}
	}
	if err := i.remove(ctx, definitions, consumerDefinition()); err != nil {
		return err
	}
	return i.awaitDeletion(ctx, definitions, consumerDefinition().GetName())
}
