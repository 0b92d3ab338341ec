package claimcache

import (
	"unique"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// ResizeOf returns what a granted claim is to hold in place of what it holds, or nil if nothing else is asked for.
func ResizeOf(claim *quotav1alpha1.ResourceClaim) []quotav1alpha1.ResourceRequest {
	requests := claim.ResizeRequests()
	if len(requests) == 0 || IsFromPolicy(claim) || StateOf(claim) != Granted || equality.Semantic.DeepEqual(requests, claim.Spec.Requests) {
		return nil
	}
	return requests
}

// HasResize tells whether the claim is to hold something else than it holds.
func (c *Claim) HasResize() bool { return c.resize != unique.Handle[requestsKey]{} }

// Resize is what a claim is to hold that is to hold something else.
func (c *Claim) Resize() []quotav1alpha1.ResourceRequest { return decodeRequests(c.resize) }

// SameResize tells whether two claims are to hold the same in place of what they hold, or nothing else.
func (c *Claim) SameResize(other *Claim) bool {
	return c.resize == other.resize && c.Resizing == other.Resizing
}

// hasResizePending tells whether a granted claim says that it does not hold yet what it is to hold.
func hasResizePending(claim *quotav1alpha1.ResourceClaim) bool {
	return StateOf(claim) == Granted && apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionResizePending) != nil
}
