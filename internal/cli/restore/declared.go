package restore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// declared returns the declared kinds of the backup.
func (r *restorer) declared() []quotakinds.Kind {
	return quotakinds.WithRoles(r.order, quotakinds.Declared)
}

// checkDeclared makes sure that all declared objects of the server are in the backup and equal to its objects. Imported
// ones only have to be equal, because they limit nothing by themselves.
func (r *restorer) checkDeclared(ctx context.Context) error {
	if r.Overwrite {
		return nil
	}
	var others []string
	for _, kind := range quotakinds.WithRoles(r.order, quotakinds.Declared, quotakinds.Imported) {
		declared := map[string]*unstructured.Unstructured{}
		err := r.each(kind, func(object *unstructured.Unstructured) error {
			declared[quotakinds.Name(object)] = object
			return nil
		})
		if err != nil {
			return err
		}
		_, err = kind.Each(ctx, r.caller, "", func(object *unstructured.Unstructured) error {
			before, isKnown := declared[quotakinds.Name(object)]
			isOther := isKnown && !isDeclaredAs(object, before) || !isKnown && kind.Role == quotakinds.Declared
			if isOther && !quotakinds.IsFromPolicy(object) {
				others = append(others, kind.Kind+" "+quotakinds.Name(object))
			}
			return nil
		})
		if err != nil && !isUnserved(kind, err) {
			return err
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("the server has quota of its own: %s; restore into a server without quota, or give --overwrite to replace objects that differ from the backup and keep the rest", some(others))
	}
	return nil
}

// isDeclaredAs reports whether two objects have the same declaration, with its labels and annotations.
func isDeclaredAs(a, b *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(quotakinds.Declaration(a).Object, quotakinds.Declaration(b).Object)
}

// isUnserved reports whether an error says that the server has no imported objects of a kind, because the restore has
// yet to define the kind.
func isUnserved(kind quotakinds.Kind, err error) bool {
	return kind.Role == quotakinds.Imported && apierrors.IsNotFound(err)
}

// some names the first of some objects.
func some(names []string) string {
	const shown = 5
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}

// restoreImported restores the consumers of bursar import, after their definition and the roles to follow their
// objects.
func (r *restorer) restoreImported(ctx context.Context) error {
	for _, kind := range quotakinds.ImportedKinds() {
		if kind.Resource == quotakinds.Consumers.Resource && r.archive.Manifest.Has(kind.String()) && !r.DryRun {
			if err := quotakinds.AwaitConsumers(ctx, r.caller); err != nil {
				return err
			}
		}
		if err := r.restoreKind(ctx, kind, r.caller, nil); err != nil {
			return err
		}
	}
	return nil
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
			return "GrantCreationPolicies make them again"
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
			r.report.leaveOut(kind, wasDeleted)
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
	case err == nil && isDeclaredAs(existing, object):
		r.report.count(kind, present)
		return nil
	case err == nil && r.DryRun:
		r.report.count(kind, replaced)
		return nil
	case err == nil:
		object.SetResourceVersion(existing.GetResourceVersion())
		keepOwn(object, existing)
		if _, err = resource.Update(ctx, object, metav1.UpdateOptions{}); err == nil {
			r.report.count(kind, replaced)
			return nil
		}
	}
	return fmt.Errorf("restore %s %s: %w", kind.Kind, quotakinds.Name(object), err)
}

// keepOwn keeps the fields of an existing object that are about this server: finalizers, owners, and the record of
// other control planes with grants of a policy.
func keepOwn(object, existing *unstructured.Unstructured) {
	object.SetFinalizers(existing.GetFinalizers())
	object.SetOwnerReferences(existing.GetOwnerReferences())
	annotations := object.GetAnnotations()
	delete(annotations, quotav1alpha1.AnnotationControlPlanes)
	if record := existing.GetAnnotations()[quotav1alpha1.AnnotationControlPlanes]; record != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[quotav1alpha1.AnnotationControlPlanes] = record
	}
	object.SetAnnotations(annotations)
}

// result is the outcome for an object.
type result int

const (
	restored result = iota
	present
	replaced
)
