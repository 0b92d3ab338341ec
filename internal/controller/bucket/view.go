package bucket

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledger"
)

// statusOf reads one resource type from the books. What is reserved counts as allocated: it is
// not available to anyone else.
func statusOf(books *ledger.Ledger, resourceType string) quotav1alpha1.AllowanceBucketStatus {
	account := books.Account(resourceType)
	status := quotav1alpha1.AllowanceBucketStatus{
		Limit:      int64(account.Limit),
		Allocated:  int64(account.Used + account.Reserved),
		Available:  int64(account.Available),
		ClaimCount: int32(account.Claims),
	}
	for grant := range books.Grants() {
		var amount ledger.Amount
		contributes := false
		for _, allowance := range grant.Allowances {
			if allowance.ResourceType == resourceType {
				amount, contributes = amount+allowance.Amount, true // no more than the limit, which fits
			}
		}
		if contributes {
			status.GrantCount++
			status.ContributingGrantRefs = append(status.ContributingGrantRefs, quotav1alpha1.ContributingGrantRef{
				Name: grant.Name, Amount: int64(amount), LastObservedGeneration: grant.Generation,
			})
		}
	}
	return status
}

// newBucket is a bucket that says nothing yet.
func newBucket(name types.NamespacedName, consumer quotav1alpha1.ConsumerRef, resourceType string) *quotav1alpha1.AllowanceBucket {
	return &quotav1alpha1.AllowanceBucket{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace,
			Name:      name.Name,
			Labels: map[string]string{
				quotav1alpha1.LabelConsumerKind: claims.LabelValue(consumer.Kind),
				quotav1alpha1.LabelConsumerName: claims.LabelValue(consumer.Name),
			},
		},
		Spec: quotav1alpha1.AllowanceBucketSpec{ConsumerRef: consumer, ResourceType: resourceType},
	}
}

// namespaceOf is where the buckets of a consumer are.
func (c *Controller) namespaceOf(consumer quotav1alpha1.ConsumerRef) string {
	if consumer.Namespace != "" {
		return consumer.Namespace
	}
	template, ok := c.Namespaces[schema.GroupKind{Group: consumer.APIGroup, Kind: consumer.Kind}]
	if !ok {
		return c.SystemNamespace
	}
	return strings.ReplaceAll(template, "{{name}}", consumer.Name)
}
