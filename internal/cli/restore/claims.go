package restore

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/cli/backup"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// The reasons to leave out claims.
const (
	objectIsAbsent = "no such objects exist here; Bursar decides on them when somebody creates them, and may deny them"
	wasDeleted     = "the backup has them under deletion"
	wasUndecided   = "Bursar makes them again for their objects"
	isCharged      = "their objects have claims already"
	isView         = "they only show what their objects demand; Bursar makes them again for objects that exist here"
)

// restoreGranted restores the claims that hold quota.
func (r *restorer) restoreGranted(ctx context.Context) error {
	charged, err := r.chargedObjects(ctx)
	if err != nil {
		return err
	}
	return r.restoreClaims(ctx, func(claim *quotav1alpha1.ResourceClaim) (string, error) {
		if !claims.HoldsCharge(claim) {
			return r.whyNotGranted(claim), nil
		}
		r.report.addUse(claim)
		switch {
		case !claimcache.IsFromPolicy(claim):
			return "", nil
		case claims.IsView(claim):
			return isView, nil
		}
		uid, err := r.live.uid(ctx, kindOf(claim.Spec.ResourceRef), nameOf(claim.Spec.ResourceRef))
		switch {
		case err != nil:
			return "", err
		case uid == "":
			return objectIsAbsent, nil
		case charged[chargedObject{claims.PolicyOf(claim), uid}] != (types.NamespacedName{}) &&
			charged[chargedObject{claims.PolicyOf(claim), uid}] != types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}:
			return isCharged, nil
		}
		claim.Annotations[quotav1alpha1.AnnotationResourceUID] = string(uid)
		return "", nil
	})
}

// restoreWaiting restores the directly created claims without a grant. Bursar decides them again.
func (r *restorer) restoreWaiting(ctx context.Context) error {
	return r.restoreClaims(ctx, func(claim *quotav1alpha1.ResourceClaim) (string, error) {
		if claims.HoldsCharge(claim) {
			return skipped, nil
		}
		if reason := r.whyNotGranted(claim); reason != skipped {
			return skipped, nil // restoreGranted has reported it
		}
		return "", nil
	})
}

// skipped is the reason of a claim that belongs to another step.
const skipped = "-"

// whyNotGranted returns the reason to leave out a claim without a charge. It is skipped if the claim waits for a
// decision.
func (r *restorer) whyNotGranted(claim *quotav1alpha1.ResourceClaim) string {
	switch {
	case claim.DeletionTimestamp != nil:
		return wasDeleted
	case claimcache.IsFromPolicy(claim):
		return wasUndecided
	default:
		return skipped
	}
}

// restoreClaims creates the claims of the backup as Bursar, with their status. prepare may change a claim, or return a
// reason to leave it out.
func (r *restorer) restoreClaims(ctx context.Context, prepare func(*quotav1alpha1.ResourceClaim) (string, error)) error {
	kind := r.kinds[claimsName]
	httpClient, err := rest.HTTPClientFor(r.bursarConfig)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	client, err := claims.NewClient(r.bursarConfig, httpClient, nil)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	err = r.each(kind, func(object *unstructured.Unstructured) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		claim := &quotav1alpha1.ResourceClaim{}
		if err := backup.Decode(object, claim); err != nil {
			return fmt.Errorf("decode claim %s: %w", quotakinds.Name(object), err)
		}
		reason, err := prepare(claim)
		switch {
		case err != nil:
			return err
		case reason == skipped:
			return nil
		case reason != "":
			r.report.leaveOut(kind, reason)
			return nil
		}
		if err := r.settleIn(ctx, claim); err != nil {
			return err
		}
		group.Go(func() error { return r.createClaim(ctx, client, claim) })
		return nil
	})
	if failed := group.Wait(); failed != nil {
		err = failed
	}
	return err
}

// settleIn replaces the parts of a claim from the server of the backup: its identity and the UIDs of its owners. It
// removes an owner missing here, because the garbage collector would otherwise delete the claim.
func (r *restorer) settleIn(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	var owners []metav1.OwnerReference
	for _, owner := range claim.OwnerReferences {
		version, err := schema.ParseGroupVersion(owner.APIVersion)
		if err != nil {
			return fmt.Errorf("claim %s/%s has an owner of version %q: %w", claim.Namespace, claim.Name, owner.APIVersion, err)
		}
		kind := objectKind{Group: version.Group, Kind: owner.Kind}
		for _, namespace := range []string{claim.Namespace, ""} { // an owner is beside the claim, or in no namespace
			uid, err := r.live.uid(ctx, kind, types.NamespacedName{Namespace: namespace, Name: owner.Name})
			if err != nil {
				return err
			}
			if uid != "" {
				owner.UID = uid
				owners = append(owners, owner)
				break
			}
		}
	}
	if missing := len(claim.OwnerReferences) - len(owners); missing > 0 {
		r.report.addMissingOwners(missing)
	}
	claim.ObjectMeta = metav1.ObjectMeta{
		Namespace: claim.Namespace, Name: claim.Name, Labels: claim.Labels, Annotations: claim.Annotations, OwnerReferences: owners,
		Finalizers: []string{quotav1alpha1.FinalizerQuotaRelease},
	}
	claim.Status.ObservedGeneration = min(claim.Status.ObservedGeneration, 1)
	for i := range claim.Status.Conditions {
		claim.Status.Conditions[i].ObservedGeneration = min(claim.Status.Conditions[i].ObservedGeneration, 1)
	}
	return nil
}

func (r *restorer) createClaim(ctx context.Context, client *claims.Client, claim *quotav1alpha1.ResourceClaim) error {
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	existing, err := client.Get(ctx, name)
	switch {
	case err == nil && existing.Spec.ConsumerRef == claim.Spec.ConsumerRef && existing.Spec.ResourceRef == claim.Spec.ResourceRef &&
		(claimcache.IsFromPolicy(claim) || equality.Semantic.DeepEqual(existing.Spec.Requests, claim.Spec.Requests)):
		r.report.count(r.kinds[claimsName], present)
		return nil
	case err == nil:
		return fmt.Errorf("the server has another claim %s, for another object or amount: delete it first", name)
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read claim %s: %w", name, err)
	}
	if !r.DryRun {
		if _, err := client.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("restore claim %s: %w", name, err)
		}
	}
	r.report.count(r.kinds[claimsName], restored)
	return nil
}

// chargedObject is an object charged by a policy.
type chargedObject struct {
	policy string
	uid    types.UID
}

// chargedObjects returns the names of the claims of policies on the server, by their objects.
func (r *restorer) chargedObjects(ctx context.Context) (map[chargedObject]types.NamespacedName, error) {
	charged := map[chargedObject]types.NamespacedName{}
	options := metav1.ListOptions{Limit: pageSize, LabelSelector: quotav1alpha1.LabelAutoCreated + "=true"}
	for {
		page, err := r.metadata.Resource(r.kinds[claimsName].GroupVersionResource).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list the claims of the server: %w", err)
		}
		for i := range page.Items {
			claim := &page.Items[i]
			key := chargedObject{claim.Labels[quotav1alpha1.LabelPolicy], types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID])}
			charged[key] = types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return charged, nil
		}
	}
}

func kindOf(ref quotav1alpha1.UnversionedObjectReference) objectKind {
	return objectKind{Group: ref.APIGroup, Kind: ref.Kind}
}

func nameOf(ref quotav1alpha1.UnversionedObjectReference) types.NamespacedName {
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}
