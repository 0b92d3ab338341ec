package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResizeRequests returns the requests in [AnnotationResize], or nil without any, or with undecodable ones.
func (c *ResourceClaim) ResizeRequests() []ResourceRequest {
	var requests []ResourceRequest
	if encoded, isSet := c.Annotations[AnnotationResize]; !isSet || json.Unmarshal([]byte(encoded), &requests) != nil {
		return nil
	}
	return requests
}

// SetResizeRequests sets the requests in [AnnotationResize].
func (c *ResourceClaim) SetResizeRequests(requests []ResourceRequest) error {
	encoded, err := json.Marshal(requests)
	if err != nil {
		return fmt.Errorf("encode the resize of claim %s/%s: %w", c.Namespace, c.Name, err)
	}
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, AnnotationResize, string(encoded))
	return nil
}
