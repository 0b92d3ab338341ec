// Package overview reads quota for pages: the use and limits of consumers in display units, with the names and
// descriptions of resource types. It reads with the rights of its client's user, and omits what they may not read
// besides the quota itself. Only areas of the console import it.
package overview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/usage"
)

// itemsMax is the default of [Query.Max].
const itemsMax = 1000

// Query selects quota. An empty field selects everything that the user may see.
type Query struct {
	// Namespace is the namespace of the effective grants.
	Namespace string
	// Consumer is KIND/NAME, KIND.GROUP/NAME or KIND.GROUP/NAMESPACE/NAME.
	Consumer string
	// ResourceType is a resource type, or its end after the last slash.
	ResourceType string
	// Max bounds the items to read. 0: 1,000.
	Max int
}

// Overview is the result of a query, the most used first.
type Overview struct {
	Items []Item
	Names Names
	// IsCut reports whether there are more items than the query's maximum. The items are then any of them.
	IsCut bool
}

// Item is one resource type of one consumer. Texts are in display units, as the API server shows them.
type Item struct {
	// Usage has the consumer and the resource type, and amounts in base units, for the drawing of bars.
	usage.Usage
	Description
	// Namespace is the namespace of the effective grant.
	Namespace string
	// Consumer names the consumer as Kind/name.
	Consumer string
	// Reference names the consumer without doubt, for links.
	Reference string
	// UsedText, LimitText and LeftText are amounts with their unit. OverText is the amount beyond the limit, or empty.
	UsedText, LimitText, LeftText, OverText string
	// Percent is the used part of the limit, such as 80%.
	Percent string
	Level   usage.Level
	// IsMetered is unset while the resource type has no active registration, so nothing counts or limits it.
	IsMetered bool
	// Unit is the display unit, for other amounts of the item.
	Unit usage.Unit
	// Grants are the active grants in the limit.
	Grants []quotav1alpha1.EffectiveGrantRef
}

// IsGranted reports whether there is a limit above 0.
func (i *Item) IsGranted() bool { return i.Limit > 0 }

// IsNear reports whether the use is near the limit, and has not reached it.
func (i *Item) IsNear() bool { return i.Level == usage.Near }

// IsFull reports whether the use has reached the limit.
func (i *Item) IsFull() bool { return i.Level >= usage.Reached }

// Read reads quota. Its error is the API server's about EffectiveResourceGrants, or about the query's consumer.
func Read(ctx context.Context, api client.Reader, q Query) (*Overview, error) {
	names, err := ReadNames(ctx, api)
	if err != nil {
		return nil, err
	}
	options := []client.ListOption{client.InNamespace(q.Namespace), client.Limit(int64(cmp.Or(q.Max, itemsMax)))}
	fields := client.MatchingFields{}
	var consumer consumername.Name
	if q.Consumer != "" {
		if consumer, err = consumername.Parse(q.Consumer); err != nil {
			return nil, fmt.Errorf("the consumer %w", err)
		}
		given, _ := consumer.Full()
		fields["spec.consumerRef.name"] = given.Name
	}
	if strings.Contains(q.ResourceType, "/") {
		fields["spec.resourceType"] = q.ResourceType
	}
	if len(fields) > 0 {
		options = append(options, fields)
	}
	var list quotav1alpha1.EffectiveResourceGrantList
	if err := api.List(ctx, &list, options...); err != nil {
		return nil, fmt.Errorf("list the effective grants: %w", err)
	}
	o := &Overview{Names: names, IsCut: list.Continue != ""}
	seen := map[quotav1alpha1.EffectiveResourceGrantSpec]bool{} // a moved one may exist twice
	for i := range list.Items {
		shown := &list.Items[i]
		isOther := q.Consumer != "" && !consumer.Matches(shown.Spec.ConsumerRef) || !isNamed(q.ResourceType, shown.Spec.ResourceType)
		if isOther || seen[shown.Spec] {
			continue
		}
		seen[shown.Spec] = true
		o.Items = append(o.Items, ItemOf(shown, names))
	}
	slices.SortStableFunc(o.Items, Compare)
	return o, nil
}

// Compare sorts items: the most used part of a limit first, then by consumer and resource type.
func Compare(a, b Item) int {
	return cmp.Or(cmp.Compare(b.Ratio(), a.Ratio()), cmp.Compare(a.Reference, b.Reference), cmp.Compare(a.ResourceType, b.ResourceType))
}

func isNamed(name, resourceType string) bool {
	return name == "" || name == resourceType || name == resourceType[strings.LastIndex(resourceType, "/")+1:]
}

// ItemOf returns the item of an effective grant.
func ItemOf(shown *quotav1alpha1.EffectiveResourceGrant, names Names) Item {
	status, consumer := &shown.Status, shown.Spec.ConsumerRef
	item := Item{
		Usage: usage.Usage{
			Consumer: consumer, ResourceType: shown.Spec.ResourceType, Used: status.TotalAllocated, Limit: status.TotalLimit,
			IsFeature: status.Feature != "",
		},
		Description: names.Describe(shown.Spec.ResourceType), Namespace: shown.Namespace, Consumer: consumer.Kind + "/" + consumer.Name,
		Reference: ReferenceTo(consumer), IsMetered: status.Display != nil, Grants: status.GrantRefs,
		Percent: message.Percent(ledger.Amount(status.TotalAllocated), ledger.Amount(status.TotalLimit)),
	}
	if item.IsFeature {
		item.Percent = ""
	}
	item.Level = item.Usage.Level(usage.Below, quotav1alpha1.AlertThresholdDefault)
	var isKnown bool
	if item.Unit, isKnown = names.Unit(item.ResourceType); !isKnown {
		item.Unit, _ = usage.UnitOf(usage.ItemOf(shown))
	}
	if d := status.Display; d != nil {
		item.Title, item.About, item.Owner = cmp.Or(d.Name, item.Title), cmp.Or(item.About, d.Description), cmp.Or(item.Owner, d.Owner)
		item.UsedText, item.LimitText, item.LeftText = d.TotalAllocated, d.TotalLimit, d.Available
	} else {
		item.UsedText, item.LimitText = item.Unit.Amount(item.Used), item.Unit.Amount(item.Limit)
		item.LeftText = item.Unit.Amount(status.Available)
	}
	if over := item.OverLimit(); over > 0 {
		item.OverText = item.Unit.Amount(over)
	}
	return item
}

// ReferenceTo names a consumer without doubt: KIND.GROUP/NAME, or KIND.GROUP/NAMESPACE/NAME.
func ReferenceTo(consumer quotav1alpha1.ConsumerRef) string {
	text := consumer.Kind + "." + consumer.APIGroup + "/"
	if consumer.Namespace != "" {
		text += consumer.Namespace + "/"
	}
	return text + consumer.Name
}

// Describe describes a resource type by its registration, or by an item.
func (o *Overview) Describe(resourceType string) Description {
	for i := range o.Items {
		if o.Items[i].ResourceType == resourceType {
			return o.Items[i].Description
		}
	}
	return o.Names.Describe(resourceType)
}

// Unit returns the display unit of a resource type. Without the right to read registrations, it follows from the
// amounts of items. An unknown unit is the zero value.
func (o *Overview) Unit(resourceType string) usage.Unit {
	if unit, isKnown := o.Names.Unit(resourceType); isKnown {
		return unit
	}
	for i := range o.Items {
		if item := &o.Items[i]; item.ResourceType == resourceType && item.Unit.Name != "" {
			return item.Unit
		}
	}
	return usage.Unit{}
}
