package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// concurrency is how many requests run at the same time.
const concurrency = 16

const (
	registrations = "resourceregistrations." + quotav1alpha1.GroupName
	grants        = "resourcegrants." + quotav1alpha1.GroupName
	claimsName    = "resourceclaims." + quotav1alpha1.GroupName
	requests      = "quotarequests." + quotav1alpha1.GroupName
	decisions     = "quotadecisions." + quotav1alpha1.GroupName
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// declared returns the declared kinds of the backup.
func (r *restorer) declared() []quotakinds.Kind {
	return quotakinds.WithRoles(r.order, quotakinds.Declared)
}

// checkNamespaces makes sure that the namespaces of the objects exist, or that the restore may create them.
func (r *restorer) checkNamespaces(ctx context.Context) error {
	needed := map[string]bool{}
	for _, kind := range r.order {
		if err := r.each(kind, func(object *unstructured.Unstructured) error { needed[object.GetNamespace()] = true; return nil }); err != nil {
			return err
		}
	}
	delete(needed, "")
	_, err := quotakinds.Each(ctx, r.caller, namespaces, "", func(namespace *unstructured.Unstructured) error {
		delete(needed, namespace.GetName())
		return nil
	})
	if err != nil {
		return err
	}
	for name := range needed {
		r.report.missingNamespaces = append(r.report.missingNamespaces, name)
	}
	slices.Sort(r.report.missingNamespaces)
	if len(r.report.missingNamespaces) > 0 && !r.CreateNamespaces {
		return fmt.Errorf("the server lacks namespaces of the backup (%d): %s; create them, or give --create-namespaces",
			len(needed), some(r.report.missingNamespaces))
	}
	return nil
}

func (r *restorer) createNamespaces(ctx context.Context) error {
	for _, name := range r.report.missingNamespaces {
		if r.DryRun {
			continue
		}
		namespace := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": corev1.SchemeGroupVersion.String(), "kind": "Namespace", "metadata": map[string]any{"name": name},
		}}
		_, err := r.caller.Resource(namespaces).Create(ctx, namespace, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	return nil
}

// checkDeclared makes sure that all declared objects of the server are in the backup and equal to its objects.
func (r *restorer) checkDeclared(ctx context.Context) error {
	if r.Overwrite {
		return nil
	}
	var others []string
	for _, kind := range r.declared() {
		specs := map[string]any{}
		err := r.each(kind, func(object *unstructured.Unstructured) error {
			specs[quotakinds.Name(object)] = object.Object["spec"]
			return nil
		})
		if err != nil {
			return err
		}
		_, err = quotakinds.Each(ctx, r.caller, kind.GroupVersionResource, "", func(object *unstructured.Unstructured) error {
			spec, isKnown := specs[quotakinds.Name(object)]
			if !quotakinds.IsFromPolicy(object) && (!isKnown || !equality.Semantic.DeepEqual(spec, object.Object["spec"])) {
				others = append(others, kind.Kind+" "+quotakinds.Name(object))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("the server has quota of its own: %s; restore into a server without quota, or give --overwrite to replace objects that differ from the backup and keep the rest", some(others))
	}
	return nil
}

// some names the first of some objects.
func some(names []string) string {
	const shown = 5
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}

// restoreFirst restores the registrations. Without them nothing counts.
func (r *restorer) restoreFirst(ctx context.Context) error {
	kind, isServed := r.kinds[registrations]
	if !isServed {
		return errors.New("the server has no ResourceRegistrations")
	}
	return r.restoreKind(ctx, kind, r.caller, nil)
}

// restoreGrants restores grants as Bursar, to keep the names of those who last changed them. Policies make their grants
// again.
func (r *restorer) restoreGrants(ctx context.Context) error {
	return r.restoreKind(ctx, r.kinds[grants], r.bursar, func(grant *unstructured.Unstructured) string {
		if quotakinds.IsFromPolicy(grant) {
			return "a GrantCreationPolicy makes it again"
		}
		annotations := grant.GetAnnotations()
		if uid := annotations[quotav1alpha1.AnnotationRequestUID]; uid != "" {
			annotations[quotav1alpha1.AnnotationRequestUID] = r.requestUID(uid)
			grant.SetAnnotations(annotations)
		}
		return ""
	})
}

// restoreRest restores all other kinds, policies last.
func (r *restorer) restoreRest(ctx context.Context) error {
	for _, kind := range r.declared() {
		if name := kind.String(); name == registrations || name == grants {
			continue
		}
		if err := r.restoreKind(ctx, kind, r.caller, nil); err != nil {
			return err
		}
	}
	return nil
}

// restoreKind restores the declared objects of a kind. prepare may change an object, or return a reason to leave it
// out.
func (r *restorer) restoreKind(ctx context.Context, kind quotakinds.Kind, api dynamic.Interface, prepare func(*unstructured.Unstructured) string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	err := r.each(kind, func(object *unstructured.Unstructured) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if object.GetDeletionTimestamp() != nil {
			r.report.leaveOut(kind, "deleted at the time of the backup")
			return nil
		}
		restored := quotakinds.Portable(object)
		if prepare != nil {
			if reason := prepare(restored); reason != "" {
				r.report.leaveOut(kind, reason)
				return nil
			}
		}
		delete(restored.Object, "status")
		group.Go(func() error { return r.put(ctx, kind, api, restored) })
		return nil
	})
	if failed := group.Wait(); failed != nil {
		err = failed
	}
	return err
}

// put creates a declared object, or replaces a different one if the options permit it.
func (r *restorer) put(ctx context.Context, kind quotakinds.Kind, api dynamic.Interface, object *unstructured.Unstructured) error {
	resource := api.Resource(kind.GroupVersionResource).Namespace(object.GetNamespace())
	existing, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && r.DryRun:
		r.report.count(kind, restored)
		return nil
	case apierrors.IsNotFound(err):
		if _, err = resource.Create(ctx, object, metav1.CreateOptions{}); err == nil {
			r.report.count(kind, restored)
			return nil
		}
	case err == nil && equality.Semantic.DeepEqual(existing.Object["spec"], object.Object["spec"]):
		r.report.count(kind, present)
		return nil
	case err == nil && r.DryRun:
		r.report.count(kind, replaced)
		return nil
	case err == nil:
		object.SetResourceVersion(existing.GetResourceVersion())
		object.SetFinalizers(existing.GetFinalizers())
		if _, err = resource.Update(ctx, object, metav1.UpdateOptions{}); err == nil {
			r.report.count(kind, replaced)
			return nil
		}
	}
	return fmt.Errorf("restore %s %s: %w", kind.Kind, quotakinds.Name(object), err)
}

// result is the outcome for an object.
type result int

const (
	restored result = iota
	present
	replaced
)
