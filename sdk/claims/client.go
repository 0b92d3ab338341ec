package claims

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Client takes quota for objects. It is safe for concurrent use.
type Client struct {
	// Client reads and writes claims, and knows the kinds of their owners. It may read from a cache.
	Client client.Client
	// Live reads from the API server what the cache may not know of yet, objects among it. It is Client where it is nil,
	// which then must not read from a cache.
	Live client.Reader
}

// ErrDiffers is returned for an object that has a claim of another consumer. Who is charged cannot be changed: release
// the claim, and then ensure another.
var ErrDiffers = errors.New("the object has a quota claim of another consumer, which has to be released first")

// Ensure has a claim be there for an object and returns what became of it.
//
// If the object has quota for other amounts, it keeps it until the change is granted, see [Decision.Resize], as a whole
// or not at all; where nothing becomes more it always is. So an object that shrinks asks for less once it needs less.
//
// An object whose claim is of another consumer gets [ErrDiffers]. With any error the decision is one that can be told as
// well: that quota cannot be claimed at the moment, or as it is asked for. Try again later. For an object that is being
// deleted nothing is claimed, and nothing is granted any more, whatever its claim says: it is not to be provisioned.
//
// A claim that somebody deleted although its object stays is given up, and another is made once it is gone.
func (c *Client) Ensure(ctx context.Context, request Request) (Decision, error) {
	desired, err := request.claim(c.Client.Scheme())
	if err != nil {
		return Decision{State: Invalid, Message: err.Error()}, err
	}
	if request.Owner.GetDeletionTimestamp() != nil {
		return Decision{Message: "it is being deleted"}, nil
	}
	claim, err := read(ctx, c.Client, desired)
	if claim == nil && err == nil {
		claim, err = c.create(ctx, desired)
	}
	if err != nil {
		return undecided(desired, err)
	}
	if claim.DeletionTimestamp != nil {
		return Decision{Claim: claim, Message: releasedMessage}, c.releaseDeleted(ctx, request.Owner, claim)
	}
	if claim.Spec.ConsumerRef != desired.Spec.ConsumerRef {
		return Decision{Claim: claim, Message: ErrDiffers.Error()}, fmt.Errorf("ensure ResourceClaim %s/%s: %w", claim.Namespace, claim.Name, ErrDiffers)
	}
	return c.resize(ctx, claim, desired.Spec.Requests)
}

// Read returns what became of the claim of an object, and makes none. It reads from Live, so that what is to be
// provisioned for real can be held against what the claim holds now. It says nothing of whether the object is being deleted.
func (c *Client) Read(ctx context.Context, request Request) (Decision, error) {
	desired, err := request.claim(c.Client.Scheme())
	if err != nil {
		return Decision{State: Invalid, Message: err.Error()}, err
	}
	claim, err := read(ctx, c.live(), desired)
	if err != nil {
		return undecided(desired, err)
	}
	if claim != nil && claim.DeletionTimestamp != nil {
		return Decision{Claim: claim, Message: releasedMessage}, nil
	}
	return DecisionOf(claim), nil
}

// resize has a claim ask for what is wanted, and returns what became of it. One that is not granted holds nothing, and
// is made anew.
func (c *Client) resize(ctx context.Context, claim *quotav1alpha1.ResourceClaim, desired []quotav1alpha1.ResourceRequest) (Decision, error) {
	decision := DecisionOf(claim)
	requested := claim.Spec.Requests
	if decision.Resize != nil {
		requested = claim.ResizeRequests()
	}
	if equality.Semantic.DeepEqual(requested, desired) {
		return decision, nil
	}
	if !decision.IsGranted() {
		// It may have been granted since it was read.
		err := c.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return decision, fmt.Errorf("replace ResourceClaim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
		return Decision{Claim: claim, Message: releasedMessage}, nil
	}
	resized := claim.DeepCopy()
	if err := resized.SetResizeRequests(desired); err != nil {
		return decision, err
	}
	patch := client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, resized, patch); err != nil {
		return decision, fmt.Errorf("resize ResourceClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	decision = DecisionOf(resized)
	if decision.Resize != nil {
		decision.Resize = &Resize{Message: pendingMessage} // what is said is of what was asked for before
	}
	return decision, nil
}

// create makes a claim, or returns the one that is there already.
func (c *Client) create(ctx context.Context, desired *quotav1alpha1.ResourceClaim) (*quotav1alpha1.ResourceClaim, error) {
	created := desired.DeepCopy()
	err := c.Client.Create(ctx, created)
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	claim, readErr := read(ctx, c.live(), desired)
	if claim == nil && readErr == nil {
		return nil, err // it was deleted meanwhile
	}
	return claim, readErr
}

func (c *Client) live() client.Reader {
	if c.Live != nil {
		return c.Live
	}
	return c.Client
}

// read returns a claim, or nil if there is none. One of that name that is of another object is an error.
func read(ctx context.Context, from client.Reader, desired *quotav1alpha1.ResourceClaim) (*quotav1alpha1.ResourceClaim, error) {
	claim := &quotav1alpha1.ResourceClaim{}
	err := from.Get(ctx, client.ObjectKeyFromObject(desired), claim)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if owner := metav1.GetControllerOf(claim); owner == nil || owner.UID != desired.OwnerReferences[0].UID {
		return nil, fmt.Errorf("it is there and is not of %s %s", desired.Spec.ResourceRef.Kind, desired.Spec.ResourceRef.Name)
	}
	return claim, nil
}

// undecided returns what is told while a claim cannot be made or read.
func undecided(desired *quotav1alpha1.ResourceClaim, err error) (Decision, error) {
	err = fmt.Errorf("ensure ResourceClaim %s/%s: %w", desired.Namespace, desired.Name, err)
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) {
		return Decision{State: Invalid, Message: err.Error()}, err
	}
	return Decision{Message: "quota cannot be claimed at the moment: " + err.Error()}, err
}

// releaseDeleted has a deleted claim give back its charge, so that another can be made for its object. Where the object is
// being deleted as well, as it is where the garbage collector deletes the claim first, the charge stays until it is gone.
func (c *Client) releaseDeleted(ctx context.Context, owner client.Object, claim *quotav1alpha1.ResourceClaim) error {
	live := owner.DeepCopyObject().(client.Object)
	if err := c.live().Get(ctx, client.ObjectKeyFromObject(owner), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if live.GetUID() != owner.GetUID() || live.GetDeletionTimestamp() != nil {
		return nil
	}
	return c.annotateRelease(ctx, claim)
}

// annotateRelease says that a claim gives back its charge once it is deleted, although its object exists.
func (c *Client) annotateRelease(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	if claim.Annotations[quotav1alpha1.AnnotationRelease] == "true" {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:"true"}}}`, claim.UID, quotav1alpha1.AnnotationRelease)
	err := c.Client.Patch(ctx, claim.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("give up ResourceClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// Release gives back what an object holds before it is gone, by the annotation [quotav1alpha1.AnnotationRelease].
// There is nothing to do for an object that is gone. Call it only once the object uses nothing.
func (c *Client) Release(ctx context.Context, request Request) error {
	desired, err := request.claim(c.Client.Scheme())
	if err != nil {
		return err
	}
	claim, err := read(ctx, c.live(), desired)
	if claim == nil || err != nil {
		return err
	}
	if err := c.annotateRelease(ctx, claim); err != nil {
		return err
	}
	err = c.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("release ResourceClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}
