// Package holders lists what uses quota, and what waits for it: objects that count, with or without a claim, and claims
// of record. Everything that shows people the users of quota imports it: commands, and the console.
package holders

import (
	"cmp"
	"slices"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/naming"
)

// Holder is the use of a consumer's quota by an object or a claim.
type Holder struct {
	Consumer quotav1alpha1.ConsumerRef
	// Object is empty for a claim without an object.
	Object quotav1alpha1.UnversionedObjectReference
	// Claim is the claim that holds the quota, or the view of an object that counts. An object that counts may have none.
	Claim *quotav1alpha1.ResourceClaim
	// Counts means that the object itself counts. Otherwise the claim holds the quota, or waits for it.
	Counts bool
	// Policies are those by which the object counts.
	Policies []string
	Requests []quotav1alpha1.ResourceRequest
	Created  time.Time
}

// Subject returns the object or, for a claim without one, the claim.
func (h *Holder) Subject() quotav1alpha1.UnversionedObjectReference {
	if h.Claim == nil || h.Object != (quotav1alpha1.UnversionedObjectReference{}) {
		return h.Object
	}
	return quotav1alpha1.UnversionedObjectReference{
		APIGroup: quotav1alpha1.GroupName, Kind: "ResourceClaim", Namespace: h.Claim.Namespace, Name: h.Claim.Name,
	}
}

// Sort sorts holders as Bursar does: the largest of a resource type first or, without one, the latest.
func Sort(all []Holder, resourceType string) {
	rank := func(h *Holder) int64 { return h.Created.Unix() }
	if resourceType != "" {
		rank = func(h *Holder) int64 {
			amount, _ := h.AmountOf(resourceType)
			return amount
		}
	}
	slices.SortFunc(all, func(a, b Holder) int {
		s, t := a.Subject(), b.Subject()
		return cmp.Or(
			cmp.Compare(rank(&b), rank(&a)), cmp.Compare(s.Namespace, t.Namespace), cmp.Compare(s.Name, t.Name), cmp.Compare(s.Kind, t.Kind),
			cmp.Compare(s.APIGroup, t.APIGroup), naming.CompareConsumers(a.Consumer, b.Consumer), cmp.Compare(a.claimName(), b.claimName()),
		)
	})
}

func (h *Holder) claimName() string {
	if h.Claim == nil {
		return ""
	}
	return h.Claim.Name
}

// AmountOf adds up the amounts of a resource type, over all dimensions. It reports whether there is any.
func (h *Holder) AmountOf(resourceType string) (amount int64, isFor bool) {
	for i := range h.Requests {
		if h.Requests[i].ResourceType == resourceType {
			amount, isFor = amount+h.Requests[i].Amount, true
		}
	}
	return amount, isFor
}

// OfClaim returns a claim as a holder.
func OfClaim(claim *quotav1alpha1.ResourceClaim) Holder {
	return Holder{
		Consumer: claim.Spec.ConsumerRef, Object: claim.Spec.ResourceRef, Claim: claim, Requests: claim.Spec.Requests,
		Created: claim.CreationTimestamp.Time,
	}
}

// key identifies the use of a consumer's quota by an object.
type key struct {
	consumer quotav1alpha1.ConsumerRef
	object   quotav1alpha1.UnversionedObjectReference
}

func keyOf(o *quotav1alpha1.QuotaUsageObject) key { return key{*o.ConsumerRef, o.ResourceRef} }

// Join joins claims and objects that count. An object that counts is there once: its view only adds the claim. What
// counts is the truth, so a view of anything else is left out, unless nobody could say whether its object counts.
func Join(all []quotav1alpha1.ResourceClaim, counted *Counted) []Holder {
	joined := make([]Holder, 0, len(all)+len(counted.Objects))
	places := map[key]int{}
	for i := range counted.Objects {
		o := &counted.Objects[i]
		place, isKnown := places[keyOf(o)]
		if !isKnown {
			place = len(joined)
			places[keyOf(o)] = place
			joined = append(joined, Holder{Consumer: *o.ConsumerRef, Object: o.ResourceRef, Counts: true, Created: o.CreationTimestamp.Time})
		}
		// The policies of an object may know its kind in different versions, and each version counts by itself.
		h := &joined[place]
		h.Policies = slices.Concat(h.Policies, o.Policies)
		for _, a := range o.Amounts {
			h.Requests = append(h.Requests, quotav1alpha1.ResourceRequest{ResourceType: a.ResourceType, Dimensions: a.Dimensions, Amount: a.Amount})
		}
	}

	for i := range all {
		claim := &all[i]
		if !claims.IsView(claim) {
			joined = append(joined, OfClaim(claim))
			continue
		}
		place, isKnown := places[key{claim.Spec.ConsumerRef, claim.Spec.ResourceRef}]
		switch {
		case isKnown && joined[place].Claim == nil:
			joined[place].Claim = claim
		case !isKnown && counted.keeps(claim):
			joined = append(joined, OfClaim(claim))
		}
	}
	return joined
}

// NeedsViews reports whether views may show objects that count and that the answer lacks, see [Join].
func (c *Counted) NeedsViews() bool { return c.isIncomplete || c.mayHide || c.Hidden != nil }

// keeps reports whether a view may show an object that counts and that the answer lacks. Its user sees objects in its
// namespace anyway.
func (c *Counted) keeps(view *quotav1alpha1.ResourceClaim) bool {
	return c.isIncomplete || c.NeedsViews() && view.Spec.ResourceRef.Namespace != view.Namespace
}
