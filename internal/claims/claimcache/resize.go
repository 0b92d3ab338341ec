package claimcache

import (
	"unique"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// ResizeOf returns the requested new requests of a granted claim, or nil.
func ResizeOf(claim *quotav1alpha1.ResourceClaim) []quotav1alpha1.ResourceRequest {
	requests := claim.ResizeRequests()
	if len(requests) == 0 || IsFromPolicy(claim) || StateOf(claim) != Granted || equality.Semantic.DeepEqual(requests, claim.Spec.Requests) {
		return nil
	}
	return requests
}

// HasResize reports whether the claim has a requested resize.
func (c *Claim) HasResize() bool { return c.resize != unique.Handle[requestsKey]{} }

// Resize returns the requested new requests of a claim. There is one only if HasResize.
func (c *Claim) Resize() []quotav1alpha1.ResourceRequest { return decodeRequests(c.resize) }

// SameResize reports whether two claims have the same resize requested, or none.
func (c *Claim) SameResize(other *Claim) bool {
	return c.resize == other.resize && c.Resizing == other.Resizing
}

// isStatusBehind reports whether the status of a granted claim still has a resize as pending, or an earlier spec.
func isStatusBehind(claim *quotav1alpha1.ResourceClaim) bool {
	granted := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	if StateOf(claim) != Granted || IsFromPolicy(claim) {
		return false
	}
	isPending := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionResizePending) != nil
	return isPending || granted.ObservedGeneration < claim.Generation
}
