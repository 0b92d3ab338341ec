package claimcache

import (
	"encoding/json"
	"unique"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// requestsKey is the encoded form of a claim's requests. Most claims of a policy have the same requests, so one copy
// serves many of them.
type requestsKey string

func internRequests(requests []quotav1alpha1.ResourceRequest) unique.Handle[requestsKey] {
	encoded, err := json.Marshal(requests)
	if err != nil {
		// Strings and integers always encode.
		panic(err)
	}
	return unique.Make(requestsKey(encoded))
}

// Requests returns the requests of the claim.
func (c *Claim) Requests() []quotav1alpha1.ResourceRequest { return decodeRequests(c.requests) }

// Need is what a claim waits for. The claims of a consumer with equal needs fit into its quota alike.
type Need struct{ requests, resize unique.Handle[requestsKey] }

// Need returns what the claim waits for: its requests, or its resize.
func (c *Claim) Need() Need { return Need{c.requests, c.resize} }

// AmountOf returns a function that returns the requested amount of a resource type in a claim. It is fast for many
// claims with the same requests.
func AmountOf(resourceType string) func(*Claim) int64 {
	known := map[unique.Handle[requestsKey]]int64{}
	return func(c *Claim) int64 {
		amount, ok := known[c.requests]
		if !ok {
			for _, request := range c.Requests() {
				if request.ResourceType == resourceType {
					amount += request.Amount
				}
			}
			known[c.requests] = amount
		}
		return amount
	}
}

func decodeRequests(encoded unique.Handle[requestsKey]) []quotav1alpha1.ResourceRequest {
	var requests []quotav1alpha1.ResourceRequest
	if err := json.Unmarshal([]byte(encoded.Value()), &requests); err != nil {
		panic(err) // it was encoded above
	}
	return requests
}

// Spec returns the claim's spec.
func (c *Claim) Spec() quotav1alpha1.ResourceClaimSpec {
	kind := c.Kind()
	return quotav1alpha1.ResourceClaimSpec{
		ConsumerRef: c.Consumer(),
		Requests:    c.Requests(),
		ResourceRef: quotav1alpha1.UnversionedObjectReference{
			APIGroup: kind.Group, Kind: kind.Kind, Namespace: c.Object.Namespace, Name: c.Object.Name,
		},
	}
}
