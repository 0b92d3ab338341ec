package grantpolicy

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning
)

// recordObjectEvent records an event on a policy about an object.
func (c *Controller) recordObjectEvent(policy *quotav1alpha1.GrantCreationPolicy, object *unstructured.Unstructured, eventtype, reason, action, note string, args ...any) {
	c.recordEvent(policy, &corev1.ObjectReference{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(),
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}, eventtype, reason, action, note, args...)
}

// recordGrantEvent records an event on the policy of a key about a grant. The grant's name distinguishes the events,
// also for grants in another control plane.
func (c *Controller) recordGrantEvent(k key, grant *quotav1alpha1.ResourceGrant, eventtype, reason, action, note string, args ...any) {
	policy := c.policyOf(k)
	if policy == nil {
		return
	}
	related := &corev1.ObjectReference{
		APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceGrant",
		Namespace: grant.Namespace, Name: grant.Name,
	}
	if reason == quotav1alpha1.EventGrantFailed {
		related.Namespace = "" // it may not exist, and an event needs an existing namespace: the system namespace takes it
	}
	c.recordEvent(policy, related, eventtype, reason, action, note, args...)
}

// recordEvent records an event on a policy. It leaves out the policy's version: the same event at another version is a
// repetition.
func (c *Controller) recordEvent(policy *quotav1alpha1.GrantCreationPolicy, related *corev1.ObjectReference, eventtype, reason, action, note string, args ...any) {
	regarding := &corev1.ObjectReference{
		APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "GrantCreationPolicy", Name: policy.Name, UID: policy.UID,
	}
	if related == nil {
		c.Events.Eventf(regarding, nil, eventtype, reason, action, note, args...)
		return
	}
	c.Events.Eventf(regarding, related, eventtype, reason, action, note, args...)
}
