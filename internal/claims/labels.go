package claims

import (
	"context"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// ConsumerLabels returns the labels with the consumer of a claim. It omits an invalid label value.
func ConsumerLabels(consumer quotav1alpha1.ConsumerRef) map[string]string {
	labels := map[string]string{}
	for key, value := range map[string]string{
		quotav1alpha1.LabelConsumerKind: LabelValue(consumer.Kind), quotav1alpha1.LabelConsumerName: LabelValue(consumer.Name),
	} {
		if len(validation.IsValidLabelValue(value)) == 0 {
			labels[key] = value
		}
	}
	return labels
}

// setConsumerLabels sets the labels with the consumer on a new claim.
func setConsumerLabels(claim *quotav1alpha1.ResourceClaim) {
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	maps.Copy(claim.Labels, ConsumerLabels(claim.Spec.ConsumerRef))
}

// Label sets the labels with the consumer on an existing claim.
func (c *Client) Label(ctx context.Context, name types.NamespacedName, uid types.UID, consumer quotav1alpha1.ConsumerRef) error {
	claim := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, UID: uid}}
	_, err := c.patch(ctx, claim, map[string]any{}, map[string]any{"labels": ConsumerLabels(consumer)})
	return err
}
