package bucket

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

// subject identifies a published quota: the consumer, the resource type and the namespace.
type subject struct {
	consumer     quotav1alpha1.ConsumerRef
	resourceType string
	namespace    string
}

// newBucket returns a bucket without a status. Without dimensions it is the bucket of the whole type.
func (s subject) newBucket(d ledger.Dimensions) *quotav1alpha1.AllowanceBucket {
	return &quotav1alpha1.AllowanceBucket{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace,
			Name:      naming.Bucket(s.consumer, s.resourceType, d.Map()),
			Labels:    s.labels(),
		},
		Spec: quotav1alpha1.AllowanceBucketSpec{ConsumerRef: s.consumer, ResourceType: s.resourceType, Dimensions: d.Map()},
	}
}

// newEffectiveGrant returns an effective grant without a status.
func (s subject) newEffectiveGrant() *quotav1alpha1.EffectiveResourceGrant {
	labels := s.labels()
	setLabel(labels, quotav1alpha1.LabelResourceType, strings.ReplaceAll(s.resourceType, "/", "."))
	return &quotav1alpha1.EffectiveResourceGrant{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace,
			Name:      naming.EffectiveGrant(s.consumer, s.resourceType),
			Labels:    labels,
		},
		Spec: quotav1alpha1.EffectiveResourceGrantSpec{ConsumerRef: s.consumer, ResourceType: s.resourceType},
	}
}

func (s subject) labels() map[string]string {
	labels := map[string]string{}
	setLabel(labels, quotav1alpha1.LabelConsumerKind, claims.LabelValue(s.consumer.Kind))
	setLabel(labels, quotav1alpha1.LabelConsumerName, claims.LabelValue(s.consumer.Name))
	return labels
}

// setLabel sets a label, unless the value is invalid for labels.
func setLabel(labels map[string]string, key, value string) {
	if len(validation.IsValidLabelValue(value)) == 0 {
		labels[key] = value
	}
}

// ownerOf returns a reference to the effective grant as the only owner of its buckets. It does not block the owner's
// deletion, because the controller would create the buckets again in the meantime.
func ownerOf(effective *quotav1alpha1.EffectiveResourceGrant) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: quotav1alpha1.GroupVersion.String(), Kind: effectiveGrantKind,
		Name: effective.Name, UID: effective.UID, Controller: new(true),
	}
}

const effectiveGrantKind = "EffectiveResourceGrant"

func (c *Controller) subjectOf(consumer quotav1alpha1.ConsumerRef, resourceType string) subject {
	return subject{consumer: consumer, resourceType: resourceType, namespace: c.namespaceOf(consumer)}
}

// namespaceOf returns the namespace for the quota of a consumer.
func (c *Controller) namespaceOf(consumer quotav1alpha1.ConsumerRef) string {
	return naming.NamespaceOf(consumer, c.Namespaces, c.SystemNamespace)
}
