package claims

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Usage is a consumer's use of a resource type, in base units.
type Usage struct {
	ResourceType           string
	Used, Limit, Available int64
	// Display has the same figures in display units. It is nil while the resource type has no active registration.
	Display *quotav1alpha1.DisplayedQuota
}

// String returns the usage for people, such as "15.5/16 vCPUs used".
func (u Usage) String() string {
	if u.Display == nil {
		return fmt.Sprintf("%d/%d used", u.Used, u.Limit)
	}
	used, _, _ := strings.Cut(u.Display.TotalAllocated, " ")
	return used + "/" + u.Display.TotalLimit + " used"
}

// Usage returns a consumer's use of each resource type with a grant or a claim, in the order of their names. Use it to
// inform users before they create objects. It is slightly out of date and ignores dimensions: only the decision on a
// claim is binding.
//
// It reads from Live. An error is the API server's.
func (c *Client) Usage(ctx context.Context, consumer quotav1alpha1.ConsumerRef) ([]Usage, error) {
	var list quotav1alpha1.EffectiveResourceGrantList
	err := c.live().List(ctx, &list, client.MatchingFields{"spec.consumerRef.kind": consumer.Kind, "spec.consumerRef.name": consumer.Name})
	if err != nil {
		return nil, fmt.Errorf("read the quota of %s %s: %w", consumer.Kind, consumer.Name, err)
	}
	var all []Usage
	for _, item := range list.Items {
		if item.Spec.ConsumerRef != consumer { // of another group or namespace
			continue
		}
		all = append(all, Usage{
			ResourceType: item.Spec.ResourceType, Used: item.Status.TotalAllocated, Limit: item.Status.TotalLimit,
			Available: item.Status.Available, Display: item.Status.Display,
		})
	}
	slices.SortFunc(all, func(a, b Usage) int { return cmp.Compare(a.ResourceType, b.ResourceType) })
	return slices.CompactFunc(all, func(a, b Usage) bool { return a.ResourceType == b.ResourceType }), nil // it may move
}
