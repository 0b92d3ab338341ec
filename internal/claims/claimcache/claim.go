// Package claimcache keeps what Bursar must know about every ResourceClaim at hand, and no
// more: a few hundred bytes a claim instead of the whole object, found by name, by the object
// it pays for and by consumer. It follows the API server and is never written by anyone else,
// so it may lag by milliseconds; whoever takes a decision that cannot be taken back reads the
// claim itself.
package claimcache

import (
	"strconv"
	"unique"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// State is how far the decision on a claim has come.
type State uint8

const (
	// Pending claims have not been decided yet.
	Pending State = iota
	// Granted claims hold their charges until they are deleted.
	Granted
	// Waiting claims did not fit and are decided again when capacity appears.
	Waiting
	// Invalid claims can not be decided until what they refer to changes.
	Invalid
)

// Claim is the part of a ResourceClaim that is kept. It is immutable.
type Claim struct {
	types.NamespacedName
	UID types.UID
	// Created is the creation time in Unix seconds; older claims are decided first.
	Created int64
	State   State
	// Deleting is set once the claim has a deletion timestamp, Finalizer while it carries ours.
	Deleting, Finalizer bool
	// Resizing tells of a granted claim that it is to hold something else, or says so still.
	Resizing bool
	// Labelled is set if the claim has the label that names the kind of its consumer, which Bursar sets with the other one.
	Labelled bool
	// Superseded is set once Bursar is about to replace the claim, or take it away, although its object exists.
	Superseded bool

	consumer unique.Handle[quotav1alpha1.ConsumerRef]
	kind     unique.Handle[schema.GroupKind]

	// ObjectUID is the UID of the object that a policy's claim pays for; empty for claims that
	// were created directly.
	ObjectUID types.UID
	// Sequence is that of the reservation that a policy's claim was made from.
	Sequence int64
	policy   unique.Handle[string]
	// Object names the object that the claim's resourceRef points to.
	Object   types.NamespacedName
	requests unique.Handle[requestsKey]
	// resize is what a granted claim is to hold in place of what it holds, or the zero value.
	resize unique.Handle[requestsKey]
}

// Consumer is who the claim charges.
func (c *Claim) Consumer() quotav1alpha1.ConsumerRef { return c.consumer.Value() }

// Kind is the kind of the object that the claim's resourceRef points to.
func (c *Claim) Kind() schema.GroupKind { return c.kind.Value() }

// Policy is the label value of the policy that made the claim; empty for claims that were created
// directly.
func (c *Claim) Policy() string { return c.policy.Value() }

// FromPolicy tells whether Bursar made the claim for an object, rather than a person or a
// service directly.
func (c *Claim) FromPolicy() bool { return c.ObjectUID != "" }

// Compact keeps what matters of a claim.
func Compact(claim *quotav1alpha1.ResourceClaim) *Claim {
	ref := claim.Spec.ResourceRef
	c := &Claim{
		NamespacedName: types.NamespacedName{Namespace: interned(claim.Namespace), Name: claim.Name},
		UID:            claim.UID,
		Created:        claim.CreationTimestamp.Unix(),
		State:          StateOf(claim),
		Deleting:       claim.DeletionTimestamp != nil,
		Finalizer:      HasFinalizer(claim),
		consumer:       unique.Make(claim.Spec.ConsumerRef),
		kind:           unique.Make(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}),
		Object:         types.NamespacedName{Namespace: interned(ref.Namespace), Name: ref.Name},
		requests:       internRequests(claim.Spec.Requests),
		policy:         unique.Make(""),
		Superseded:     claim.Annotations[quotav1alpha1.AnnotationSuperseded] == "true",
	}
	_, c.Labelled = claim.Labels[quotav1alpha1.LabelConsumerKind]
	if requests := ResizeOf(claim); requests != nil {
		c.resize = internRequests(requests)
	}
	c.Resizing = c.HasResize() || hasResizePending(claim)
	if IsFromPolicy(claim) {
		c.policy = unique.Make(claim.Labels[quotav1alpha1.LabelPolicy])
		c.ObjectUID = types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID])
		c.Sequence, _ = strconv.ParseInt(claim.Annotations[quotav1alpha1.AnnotationReservation], 10, 64) // 0 for none
	}
	return c
}

// interned returns one copy of a text that many claims have.
func interned(text string) string { return unique.Make(text).Value() }

// IsFromPolicy tells whether Bursar made the claim for an object. Only Bursar may set the
// marks that say so; validation refuses them from anybody else.
func IsFromPolicy(claim *quotav1alpha1.ResourceClaim) bool {
	return claim.Labels[quotav1alpha1.LabelAutoCreated] == "true" &&
		claim.Annotations[quotav1alpha1.AnnotationResourceUID] != ""
}

// HasFinalizer tells whether the claim still carries Bursar's finalizer.
func HasFinalizer(claim metav1.Object) bool {
	for _, finalizer := range claim.GetFinalizers() {
		if finalizer == quotav1alpha1.FinalizerQuotaRelease {
			return true
		}
	}
	return false
}

// StateOf reads the state from the claim's Granted condition.
func StateOf(claim *quotav1alpha1.ResourceClaim) State {
	condition := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	switch {
	case condition == nil:
		return Pending
	case condition.Status == metav1.ConditionTrue:
		return Granted
	case condition.Reason == quotav1alpha1.ReasonQuotaExceeded:
		return Waiting
	case condition.Reason == quotav1alpha1.ReasonValidationFailed:
		return Invalid
	default:
		return Pending
	}
}
