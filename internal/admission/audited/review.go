// Package audited learns from audit events how requests ended that Bursar had admitted. A request may still fail then,
// by another webhook, a ResourceQuota, or a limit of etcd. Without the news, its reservations last for as long as the
// API server might work on it.
//
// The answer to a review carries an audit annotation. It names the object and the consumer, and the API server copies
// it into the audit event of the request, beside the code of the response. An API server in this process passes its
// events to [Reporter.ProcessEvents], any other sends them to [Reporter.WebhookHandler]. Package enforce makes the
// annotations and ends the reservations.
package audited

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// annotationPrefix begins the key of the annotation. The UID of the review follows, because the API server may review
// one request several times. The API server puts the name of the webhook before it.
const annotationPrefix = "review."

// Review is a review with reservations.
type Review struct {
	// ID is the UID of the review.
	ID types.UID `json:"id"`
	// Group, Kind and UID identify the object.
	Group string    `json:"group,omitempty"`
	Kind  string    `json:"kind"`
	UID   types.UID `json:"uid"`
	// IsUpdate distinguishes an update from a create.
	IsUpdate bool `json:"update,omitempty"`
	// Consumer is the consumer whose preferred replica decided.
	Consumer quotav1alpha1.ConsumerRef `json:"consumer"`
}

// GroupKind returns the kind of the object.
func (r *Review) GroupKind() schema.GroupKind { return schema.GroupKind{Group: r.Group, Kind: r.Kind} }

// Annotations returns the audit annotations of the answer to the review.
func (r *Review) Annotations() map[string]string {
	value, err := json.Marshal(r)
	if err != nil {
		return nil // all of its fields are texts
	}
	return map[string]string{annotationPrefix + string(r.ID): string(value)}
}

// countReviews returns the number of reviews in the annotations of an audit event.
func countReviews(annotations map[string]string) (n int) {
	for key := range annotations {
		if isReview(key) {
			n++
		}
	}
	return n
}

// isReview reports whether an annotation is of a review by Bursar.
func isReview(key string) bool {
	webhook, name, _ := strings.Cut(key, "/")
	return strings.HasPrefix(name, annotationPrefix) && strings.HasSuffix(webhook, "."+quotav1alpha1.GroupName)
}

// reviewsIn returns the reviews in the annotations of an audit event.
func reviewsIn(annotations map[string]string) []Review {
	var reviews []Review
	for key, value := range annotations {
		var r Review
		if isReview(key) && json.Unmarshal([]byte(value), &r) == nil && r.UID != "" {
			reviews = append(reviews, r)
		}
	}
	return reviews
}
