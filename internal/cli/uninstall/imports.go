package uninstall

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// importedKinds have the objects of bursar import in groups of Kubernetes, in the order of their removal.
var importedKinds = []quotakinds.Kind{quotakinds.ProtectionBindings, quotakinds.ImportedProtections, quotakinds.ImportedRoles}

// checkInPlace rejects --purge if it would delete objects older than their import: they belong to Milo, with the same
// kinds.
func (u *uninstaller) checkInPlace(ctx context.Context) error {
	if !u.Purge {
		return nil
	}
	for _, k := range u.kinds {
		err := quotakinds.EachWith(ctx, u.dynamic, k.GroupVersionResource, quotav1alpha1.LabelImportedFrom, func(object *unstructured.Unstructured) error {
			if object.GetAnnotations()[quotav1alpha1.AnnotationImportedInPlace] != "true" {
				return nil
			}
			return fmt.Errorf("%s %s is older than its import from %s, so --purge would delete objects of that system; nothing was changed, run this without --purge",
				object.GetKind(), quotakinds.Name(object), object.GetLabels()[quotav1alpha1.LabelImportedFrom])
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// namesOf returns the names of the objects of an imported kind.
func (u *uninstaller) namesOf(ctx context.Context, k quotakinds.Kind) ([]string, error) {
	var names []string
	_, err := k.Each(ctx, u.dynamic, "", func(object *unstructured.Unstructured) error {
		names = append(names, object.GetName())
		return nil
	})
	return names, err
}

// reportImports reports the remaining objects of imports.
func (u *uninstaller) reportImports(ctx context.Context) error {
	for _, k := range importedKinds {
		names, err := u.namesOf(ctx, k)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			effect := ""
			if k.Kind == quotakinds.ImportedProtections.Kind {
				effect = ", which still protects the annotations " + quotav1alpha1.AnnotationImportedLimits + "* of namespaces"
			}
			fmt.Fprintf(u.Out, "  %s %s%s\n", k.Kind, enumerate(names), effect) //nolint:errcheck // the reader may be gone
		}
	}
	return nil
}

// removeImports deletes the objects of imports in groups of Kubernetes, and their annotations of namespaces. Everything
// else of imports is of Bursar's kinds. The former systems stay as they are.
func (u *uninstaller) removeImports(ctx context.Context) error {
	for _, k := range importedKinds {
		names, err := u.namesOf(ctx, k)
		if err != nil {
			return err
		}
		for _, name := range names {
			err := u.unlessDry(ctx, func(ctx context.Context) error {
				return u.dynamic.Resource(k.GroupVersionResource).Delete(ctx, name, metav1.DeleteOptions{})
			})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete %s %s: %w", k.Kind, name, err)
			}
		}
		if len(names) > 0 {
			u.report("deleted", "delete", "%s %s", k.Kind, enumerate(names))
		}
	}
	return u.removeAnnotations(ctx)
}

// removeAnnotations removes the annotations of imports from namespaces.
func (u *uninstaller) removeAnnotations(ctx context.Context) error {
	group, patching := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	count := 0
	_, err := quotakinds.Each(ctx, u.dynamic, quotakinds.Namespaces.GroupVersionResource, "", func(namespace *unstructured.Unstructured) error {
		removed := map[string]any{}
		for key := range namespace.GetAnnotations() {
			if strings.HasPrefix(key, quotav1alpha1.AnnotationImportedLimits) {
				removed[key] = nil
			}
		}
		if len(removed) == 0 {
			return nil
		}
		count++
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": removed}})
		if err != nil || u.DryRun {
			return err
		}
		group.Go(func() error {
			_, err := u.client.CoreV1().Namespaces().Patch(patching, namespace.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("remove the annotations of imports from namespace %s: %w", namespace.GetName(), err)
			}
			return nil
		})
		return nil
	})
	if failed := group.Wait(); failed != nil {
		return failed
	}
	if err == nil && count > 0 {
		u.report("removed", "remove", "the annotations %s* of %s", quotav1alpha1.AnnotationImportedLimits, message.Count(count, "namespace", "namespaces"))
	}
	return err
}
