// Package claimcache is an informer cache of ResourceClaims in compact form: a few hundred bytes a claim instead of the
// whole object. It finds claims by name, by object and by consumer.
//
// The reflector reads the first list page by page, with a watch from its first page on. A list of very many claims
// outlives its version on the API server. The cache follows the API server and may lag by milliseconds. Before an
// irreversible decision, read the claim itself.
//
// Packages claims and engine, controllers and webhooks import it.
package claimcache

import (
	"unique"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// State is the state of the decision on a claim.
type State uint8

const (
	// Pending claims have not been decided yet.
	Pending State = iota
	// Granted claims hold their charges until they are deleted.
	Granted
	// Waiting claims did not fit. Bursar decides them again when capacity appears.
	Waiting
	// Invalid claims wait for a change of other objects.
	Invalid
)

// Claim is the compact form of a ResourceClaim. It is immutable.
type Claim struct {
	types.NamespacedName
	UID types.UID
	// Version is the version of the claim, or 0 if it is no number.
	Version ledger.Version
	// Created is the creation time in Unix seconds; older claims are decided first.
	Created int64
	State   State
	// Deleting is set once the claim has a deletion timestamp, and Finalizer while it has Bursar's finalizer.
	Deleting, Finalizer bool
	// Resizing is set if a resize of a granted claim is requested, or its status does not show the last one yet.
	Resizing bool
	// Labelled is set if the claim has the label with the kind of its consumer. Bursar sets it together with the other
	// label.
	Labelled bool
	// Superseded is set if Bursar is about to remove the claim, because its object has another one.
	Superseded bool

	consumer unique.Handle[quotav1alpha1.ConsumerRef]
	kind     unique.Handle[schema.GroupKind]

	// ObjectUID is the UID of the object of a policy's claim. It is empty for directly created claims.
	ObjectUID types.UID
	policy    unique.Handle[string]
	// Object is the name in the claim's resourceRef.
	Object   types.NamespacedName
	requests unique.Handle[requestsKey]
	// resize are the requested new requests of a granted claim, or the zero value.
	resize unique.Handle[requestsKey]
}

// Consumer returns the consumer that the claim charges.
func (c *Claim) Consumer() quotav1alpha1.ConsumerRef { return c.consumer.Value() }

// Kind returns the kind in the claim's resourceRef.
func (c *Claim) Kind() schema.GroupKind { return c.kind.Value() }

// Policy returns the label value of the policy behind the claim. It is empty for directly created claims.
func (c *Claim) Policy() string { return c.policy.Value() }

// FromPolicy reports whether Bursar made the claim for an object. Otherwise a person or a service created it directly.
func (c *Claim) FromPolicy() bool { return c.ObjectUID != "" }

// Compact returns the compact form of a claim.
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
	c.Version, _ = ledger.ParseVersion(claim.ResourceVersion)

	if requests := ResizeOf(claim); requests != nil {
		c.resize = internRequests(requests)
	}
	c.Resizing = c.HasResize() || isStatusBehind(claim)

	if IsFromPolicy(claim) {
		c.policy = unique.Make(claim.Labels[quotav1alpha1.LabelPolicy])
		c.ObjectUID = types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID])
	}
	return c
}

// interned returns the shared copy of a text that many claims have.
func interned(text string) string { return unique.Make(text).Value() }

// IsFromPolicy reports whether Bursar made the claim for an object. Validation rejects these marks from all other
// users.
func IsFromPolicy(claim *quotav1alpha1.ResourceClaim) bool {
	return claim.Labels[quotav1alpha1.LabelAutoCreated] == "true" &&
		claim.Annotations[quotav1alpha1.AnnotationResourceUID] != ""
}

// HasFinalizer reports whether the claim has Bursar's finalizer.
func HasFinalizer(claim metav1.Object) bool {
	for _, finalizer := range claim.GetFinalizers() {
		if finalizer == quotav1alpha1.FinalizerQuotaRelease {
			return true
		}
	}
	return false
}

// StateOf returns the state in the claim's Granted condition.
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
