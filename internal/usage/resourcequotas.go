package usage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/quantity"
)

// allocationKind is the kind of a ResourceQuotaAllocation. It is reported like a consumer.
const allocationKind = "ResourceQuotaAllocation"

// readAllocations adds the caps on ResourceQuotas or, in a namespace, their projections there.
func (r *reader) readAllocations(ctx context.Context) error {
	if r.filter.Namespace == "" {
		err := eachPage(ctx, r.api, &quotav1alpha1.ResourceQuotaAllocationList{}, "", func(list *quotav1alpha1.ResourceQuotaAllocationList) {
			for i := range list.Items {
				r.addAllocation("", list.Items[i].Name, list.Items[i].Status.Allocated, nil)
			}
		})
		if err != nil && !IsOutOfReach(err) {
			return fmt.Errorf("list the ResourceQuotaAllocations: %w", err)
		}
		return nil
	}
	err := eachPage(ctx, r.api, &quotav1alpha1.LocalResourceQuotaAllocationList{}, r.filter.Namespace, func(list *quotav1alpha1.LocalResourceQuotaAllocationList) {
		for i := range list.Items {
			local := &list.Items[i]
			r.addAllocation(local.Namespace, local.Name, local.Status.Allocated, local.Status.Available)
		}
	})
	if err != nil && !IsOutOfReach(err) {
		return fmt.Errorf("list the LocalResourceQuotaAllocations: %w", err)
	}
	return nil
}

// addAllocation adds a cap. In a namespace, available is the most for a ResourceQuota there.
func (r *reader) addAllocation(namespace, name string, allocated corev1.ResourceQuotaStatus, available corev1.ResourceList) {
	for _, resourceName := range slices.Sorted(maps.Keys(allocated.Hard)) {
		hard, used := allocated.Hard[resourceName], allocated.Used[resourceName]
		left := hard.DeepCopy()
		left.Sub(used)
		if left.Sign() < 0 {
			left = resource.Quantity{}
		}
		if here, ok := available[resourceName]; ok {
			left = here
		}
		amounts := quantity.Proportional(used, hard, left)
		item := Item{
			ConsumerRef:  quotav1alpha1.ConsumerRef{APIGroup: quotav1alpha1.GroupName, Kind: allocationKind, Namespace: namespace, Name: name},
			ResourceType: string(resourceName), Used: amounts[0], Limit: amounts[1], Available: amounts[2],
			Display: &quotav1alpha1.DisplayedQuota{TotalAllocated: quantity.Text(used), TotalLimit: quantity.Text(hard), Available: quantity.Text(left)},
		}
		item.complete()
		r.all = append(r.all, item)
	}
}

// IncreaseItem is the result of a QuotaIncrease.
type IncreaseItem struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Requested are its amounts, and Effect is their effect.
	Requested corev1.ResourceList `json:"asked"`
	Effect    string              `json:"effect"`
	// Reason is the reason of its condition.
	Reason string `json:"reason"`
}

// readIncreases returns the increases. A filter by consumer or type excludes them all, because they are no consumers.
func (r *reader) readIncreases(ctx context.Context) ([]IncreaseItem, error) {
	if r.filter.Consumer != "" || r.filter.ResourceType != "" || r.filter.NearPercent > 0 || r.filter.WithClaims {
		return nil, nil
	}
	var found []IncreaseItem
	err := eachPage(ctx, r.api, &openmcpv1alpha1.QuotaIncreaseList{}, r.filter.Namespace, func(list *openmcpv1alpha1.QuotaIncreaseList) {
		for i := range list.Items {
			object := &list.Items[i]
			item := IncreaseItem{
				Namespace: object.Namespace, Name: object.Name, Requested: object.Spec.Hard, Effect: object.Annotations[openmcpv1alpha1.AnnotationEffect],
			}
			if effective := apimeta.FindStatusCondition(object.Status.Conditions, openmcpv1alpha1.ConditionEffective); effective != nil {
				item.Reason = effective.Reason
			}
			found = append(found, item)
		}
	})
	if err != nil && !IsOutOfReach(err) {
		return nil, fmt.Errorf("list the QuotaIncreases: %w", err)
	}
	slices.SortFunc(found, func(a, b IncreaseItem) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if limit := r.filter.Limit; limit > 0 && len(found) > limit {
		found = found[:limit]
	}
	return found, nil
}

func increaseRows(increases []IncreaseItem) [][]string {
	rows := [][]string{{"QUOTAINCREASE", "ASKED", "IN EFFECT", "STATE"}}
	for _, i := range increases {
		requested := ""
		for n, name := range slices.Sorted(maps.Keys(i.Requested)) {
			if n > 0 {
				requested += ", "
			}
			amount := i.Requested[name]
			requested += fmt.Sprintf("%s: %s", name, quantity.Text(amount))
		}
		rows = append(rows, []string{i.Namespace + "/" + i.Name, cmp.Or(requested, "-"), cmp.Or(i.Effect, "-"), cmp.Or(i.Reason, "-")})
	}
	return rows
}
