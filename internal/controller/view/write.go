package view

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/kube/secrets"
	"github.com/bursar/bursar/internal/ledger"
)

// errEarlierView means that the view of another object, which is gone, has the name of a new view.
var errEarlierView = errors.New("the view of an earlier object of that name is still there")

// errLate means that the inventory has yet to show the present version of an object.
var errLate = errors.New("the inventory has yet to show the present version of the object")

// syncObject makes the views of an object show what it demands.
func (c *Controller) syncObject(ctx context.Context, o object) error {
	w := c.wantedFor(o.kind)
	d := c.differenceOf(w, o.uid)
	var errs []error
	for _, view := range d.extra {
		if !isChangeable(view, d) {
			errs = append(errs, c.remove(ctx, w, view))
		}
	}
	for _, p := range d.missing {
		errs = append(errs, c.write(ctx, p, o.uid, d))
	}
	return errors.Join(errs...)
}

// isChangeable reports whether a view can come to show the present demand of its policy. Its consumer never changes.
func isChangeable(view *claimcache.Claim, d difference) bool {
	return changeableFor(view.Policy(), view, d) != nil
}

func changeableFor(label string, view *claimcache.Claim, d difference) *listedPolicy {
	for i := range d.missing {
		p := &d.missing[i]
		if demand := p.demandOf(view.ObjectUID); claims.LabelValue(p.Name) == label && demand != nil && demand.Consumer == view.Consumer() {
			return p
		}
	}
	return nil
}

// remove deletes a view that shows no present demand. The former leader may have made it by a later version of its
// object than this one has seen: then remove returns errLate.
func (c *Controller) remove(ctx context.Context, w wanted, view *claimcache.Claim) error {
	if p, isWanted := w.policies[view.Policy()]; isWanted {
		isLate, err := c.isLate(ctx, p, view)
		if err != nil {
			return fmt.Errorf("read the object of view %s: %w", view.NamespacedName, err)
		}
		if isLate {
			return errLate
		}
	}
	return c.delete(ctx, view)
}

// isLate reports whether the object of a view exists in a later version than the inventory shows.
func (c *Controller) isLate(ctx context.Context, p listedPolicy, view *claimcache.Claim) (bool, error) {
	seen := p.kind.VisibilityOf(view.ObjectUID)
	if seen.IsDeleted {
		return false, nil
	}

	live, err := c.readNamed(ctx, p.Trigger, view.Object)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	case live == nil || live.GetUID() != view.ObjectUID:
		return false, nil
	}
	version, err := ledger.ParseVersion(live.GetResourceVersion())
	return version > seen.Version, err
}

func (c *Controller) delete(ctx context.Context, view *claimcache.Claim) error {
	if err := c.Client.Delete(ctx, view.NamespacedName, view.UID); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete view %s: %w", view.NamespacedName, err)
	}
	return nil
}

// write makes an object's view by a policy, or has the existing one show what the object demands now.
func (c *Controller) write(ctx context.Context, p listedPolicy, uid types.UID, d difference) error {
	live, err := c.read(ctx, p, uid)
	if live == nil || err != nil {
		return err
	}
	if isEnding, err := c.isEnding(ctx, live); isEnding || err != nil {
		return err
	}
	demanded, err := c.Evaluator.View(ctx, p.Policy, p.Trigger, live)
	if err != nil {
		return fmt.Errorf("render the view of %s %s: %w", p.Trigger.Kind, live.GetName(), err)
	}
	if demanded == nil {
		return nil // the inventory shows it in a moment
	}

	label := claims.LabelValue(p.Name)
	for _, view := range d.extra {
		if view.Policy() == label && view.Consumer() == demanded.Spec.ConsumerRef {
			return c.amend(ctx, view, demanded)
		}
	}
	return c.create(ctx, p, demanded)
}

// isEnding reports whether an object is being deleted, alone or with its namespace. Its view would go at once, too.
func (c *Controller) isEnding(ctx context.Context, live *unstructured.Unstructured) (bool, error) {
	if live.GetDeletionTimestamp() != nil {
		return true, nil
	}
	if live.GetNamespace() == "" {
		return false, nil
	}
	isActive, err := c.Evaluator.Namespaces.Active(ctx, live.GetNamespace())
	if err != nil {
		return false, fmt.Errorf("look up namespace %s: %w", live.GetNamespace(), err)
	}
	return !isActive, nil
}

// read reads an object. It returns nil if the object is gone.
func (c *Controller) read(ctx context.Context, p listedPolicy, uid types.UID) (*unstructured.Unstructured, error) {
	name, isKnown := p.kind.NameOf(uid)
	if !isKnown {
		return nil, nil
	}
	live, err := c.readNamed(ctx, p.Trigger, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", evaluator.Object{Kind: p.Trigger, Name: name}, err)
	case live == nil || live.GetUID() != uid:
		return nil, nil
	}
	return live, nil
}

// readNamed reads the object of a kind with a name. It may return nil if there is none.
func (c *Controller) readNamed(ctx context.Context, kind schema.GroupVersionKind, name types.NamespacedName) (*unstructured.Unstructured, error) {
	if kind == secrets.Kind {
		list, err := c.Secrets.In(name.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name.Name})
		if err != nil || len(list.Items) == 0 {
			return nil, err
		}
		return &list.Items[0], nil
	}
	resource, isServed, err := c.Kinds.VersionedResourceFor(ctx, kind)
	if err != nil || !isServed {
		return nil, err
	}
	return c.Live.Resource(resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
}

// amend has a view show other requests.
func (c *Controller) amend(ctx context.Context, view *claimcache.Claim, demanded *quotav1alpha1.ResourceClaim) error {
	stored, err := c.Client.Get(ctx, view.NamespacedName)
	if apierrors.IsNotFound(err) || err == nil && stored.UID != view.UID {
		return nil // the cache shows it in a moment
	}
	if err != nil {
		return fmt.Errorf("read view %s: %w", view.NamespacedName, err)
	}
	err = c.Client.Amend(ctx, stored, demanded.Spec.Requests, func(claim *quotav1alpha1.ResourceClaim) {
		claims.Grant(claim, c.Catalog, time.Now())
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("change view %s: %w", view.NamespacedName, err)
	}
	return nil
}

// create creates a view. If the claim of another object has its name, the view gets another name.
func (c *Controller) create(ctx context.Context, p listedPolicy, view *quotav1alpha1.ResourceClaim) error {
	uid := types.UID(view.Annotations[quotav1alpha1.AnnotationResourceUID])
	view.Generation = 1 // as the API server gives it to a new object
	claims.Grant(view, c.Catalog, time.Now())
	for _, name := range []string{view.Name, claims.GeneratedName(view.Name+"-", p.Name, uid)} {
		named := view.DeepCopy()
		named.Name = name
		err := c.createNamed(ctx, p, named)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}

		stored, err := c.Client.Get(ctx, types.NamespacedName{Namespace: named.Namespace, Name: name})
		switch {
		case apierrors.IsNotFound(err):
			return errEarlierView
		case err != nil:
			return fmt.Errorf("read claim %s/%s: %w", named.Namespace, name, err)
		case isSameView(stored, view):
			return nil // the cache shows it in a moment
		case c.isOutlived(p, stored):
			return errors.Join(errEarlierView, c.delete(ctx, claimcache.Compact(stored)))
		}
	}
	return fmt.Errorf("both names of view %s/%s are taken by other claims", view.Namespace, view.Name)
}

// isSameView reports whether a stored claim is the view of the same object by the same policy.
func isSameView(stored, view *quotav1alpha1.ResourceClaim) bool {
	return claims.IsView(stored) && claims.PolicyOf(stored) == claims.PolicyOf(view) &&
		stored.Annotations[quotav1alpha1.AnnotationResourceUID] == view.Annotations[quotav1alpha1.AnnotationResourceUID]
}

// isOutlived reports whether a claim is a view of an object that no longer exists.
func (c *Controller) isOutlived(p listedPolicy, stored *quotav1alpha1.ResourceClaim) bool {
	if !claims.IsView(stored) || claims.PolicyOf(stored) != claims.LabelValue(p.Name) {
		return false
	}
	_, exists := p.kind.NameOf(types.UID(stored.Annotations[quotav1alpha1.AnnotationResourceUID]))
	return !exists
}

// createNamed creates a view under its name, in the system namespace if its own does not accept it.
func (c *Controller) createNamed(ctx context.Context, p listedPolicy, view *quotav1alpha1.ResourceClaim) error {
	own := view.Namespace
	_, err := c.Client.Create(ctx, view)
	if own == c.SystemNamespace {
		return createError(view, err)
	}

	switch {
	case err == nil:
		c.refusals.End(own)
		return nil
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
	case !claims.IsRefusal(err):
		return createError(view, err)
	default:
		times := c.refusals.Add(own)
		if times < claims.RefusalsMax {
			return createError(view, err)
		}
		if times == claims.RefusalsMax {
			c.reportRefusals(p, view, err)
		}
	}
	view.Namespace, view.OwnerReferences = c.SystemNamespace, nil
	_, err = c.Client.Create(ctx, view)
	return createError(view, err)
}

// reportRefusals tells that the views of a namespace move to the system namespace.
func (c *Controller) reportRefusals(p listedPolicy, view *quotav1alpha1.ResourceClaim, why error) {
	c.Log.Info("a namespace refuses claims; Bursar creates them in the system namespace", "namespace", view.Namespace, "err", why.Error())
	ref := view.Spec.ResourceRef
	object := evaluator.Object{
		Kind: p.Trigger, Name: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name},
		UID: types.UID(view.Annotations[quotav1alpha1.AnnotationResourceUID]),
	}
	c.Events.Eventf(object.Reference(), nil, corev1.EventTypeWarning, quotav1alpha1.EventClaimsRefused, "Claim",
		"namespace %s denies ResourceClaims, so the claims of its objects are in namespace %s, and are still charged: %v", view.Namespace, c.SystemNamespace, why)
}

func createError(view *quotav1alpha1.ResourceClaim, err error) error {
	if err == nil || apierrors.IsAlreadyExists(err) {
		return err
	}
	return fmt.Errorf("create view %s/%s: %w", view.Namespace, view.Name, err)
}
