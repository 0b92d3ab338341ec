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

// Client claims quota for objects. It is safe for concurrent use.
type Client struct {
	// Client reads and writes claims, and maps their owners to kinds. It may read from a cache.
	Client client.Client
	// Live reads claims and objects from the API server, because a cache may lag behind. Default: Client. Client must
	// then not read from a cache.
	Live client.Reader
}

// ErrDiffers is the error for an object with a claim of another consumer. The consumer of a claim is fixed: release the
// claim, and then ensure another.
var ErrDiffers = errors.New("the object has a quota claim of another consumer: release that claim first")

// Ensure creates the claim of the request's owner if it does not exist, and returns its current decision.
//
// If the amounts differ from those of a granted claim, Ensure requests a resize, see [Decision.Resize]. The object
// keeps its current amounts until Bursar grants the resize. Bursar grants a resize as a whole or not at all, and always
// grants one without an increase. Shrink the object before you request less for it. If the amounts differ from those of
// a claim without a grant, Ensure deletes the claim, and a later call creates another.
//
// If the claim has another consumer, Ensure returns [ErrDiffers]. The Decision is valid even if err is non-nil. It
// means that the service cannot claim quota at the moment, or not as requested. You can write it to the status of the
// object. Call Ensure again later.
//
// If the owner is being deleted, Ensure creates no claim. It returns a decision other than granted, whatever the
// claim's status: do not provision the object. If the claim is being deleted although its owner exists, Ensure releases
// it. A later call creates another claim.
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

// Read returns the current decision on the claim of the request's owner. It creates nothing. It reads from Live, so you
// can compare the resources to provision with the amounts of the claim. It does not check whether somebody is deleting
// the owner.
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

// resize requests the desired amounts for a claim, and returns its decision. A claim without a grant holds nothing.
// resize deletes it, and the next call creates another.
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
		// Bursar may have granted it since the read.
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
		decision.Resize = &Resize{Message: pendingMessage} // the message is for the earlier request
	}
	return decision, nil
}

// create creates a claim, or returns the existing one.
func (c *Client) create(ctx context.Context, desired *quotav1alpha1.ResourceClaim) (*quotav1alpha1.ResourceClaim, error) {
	created := desired.DeepCopy()
	err := c.Client.Create(ctx, created)
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	claim, readErr := read(ctx, c.live(), desired)
	if claim == nil && readErr == nil {
		return nil, err // somebody deleted it in between
	}
	return claim, readErr
}

func (c *Client) live() client.Reader {
	if c.Live != nil {
		return c.Live
	}
	return c.Client
}

// read returns a claim, or nil if there is none. It returns an error if the claim with the name belongs to another
// object.
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
		return nil, fmt.Errorf("it exists, and does not belong to %s %s", desired.Spec.ResourceRef.Kind, desired.Spec.ResourceRef.Name)
	}
	return claim, nil
}

// undecided returns the decision for a failed create or read of a claim.
func undecided(desired *quotav1alpha1.ResourceClaim, err error) (Decision, error) {
	err = fmt.Errorf("ensure ResourceClaim %s/%s: %w", desired.Namespace, desired.Name, err)
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) {
		return Decision{State: Invalid, Message: err.Error()}, err
	}
	return Decision{Message: "quota cannot be claimed at the moment: " + err.Error()}, err
}

// releaseDeleted releases the charge of a deleted claim, to make room for another claim of its object. If the object is
// being deleted as well, the garbage collector may have deleted the claim first. Then the charge stays until the object
// is gone.
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

// annotateRelease marks a claim to release its charge on deletion, although its object exists.
func (c *Client) annotateRelease(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	if claim.Annotations[quotav1alpha1.AnnotationRelease] == "true" {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:"true"}}}`, claim.UID, quotav1alpha1.AnnotationRelease)
	err := c.Client.Patch(ctx, claim.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("mark ResourceClaim %s/%s for release: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// Release releases the claim of an object before the object is deleted, see [quotav1alpha1.AnnotationRelease]. Call it
// only once the object uses no resources. Otherwise Bursar grants their quota to others while they are still in use.
// You need not call it for a deleted object.
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
