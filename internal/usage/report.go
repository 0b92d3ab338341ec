package usage

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Filter says which quota is reported. What is empty leaves nothing out.
type Filter struct {
	// Namespace is where the quota is shown.
	Namespace string
	// Consumer is the name of a consumer, or KIND/NAME, where the kind may be in any case.
	Consumer string
	// ResourceType is a resource type, or what follows its last slash.
	ResourceType string
	// NearPercent leaves out what uses less than that part of its limit and keeps no claim waiting.
	NearPercent int
	// Limit is how many items there are at most, the first in the order of SortBy. 0: all.
	Limit  int
	SortBy SortBy
	// WithClaims adds the claims.
	WithClaims bool
}

// SortBy is an order of items. The zero value is by utilization.
type SortBy string

// The orders of items.
const (
	SortByUtilization SortBy = "utilization"
	SortByConsumer    SortBy = "consumer"
	SortByType        SortBy = "type"
	SortByAvailable   SortBy = "available"
	SortByWaiting     SortBy = "waiting"
)

// Orders are all orders of items.
var Orders = []SortBy{SortByUtilization, SortByConsumer, SortByType, SortByAvailable, SortByWaiting}

func (f Filter) matches(consumer quotav1alpha1.ConsumerRef, resourceType string) bool {
	return f.matchesConsumer(consumer) && f.matchesType(resourceType)
}

func (f Filter) matchesConsumer(consumer quotav1alpha1.ConsumerRef) bool {
	kind, name, hasKind := strings.Cut(f.Consumer, "/")
	if !hasKind {
		kind, name = "", kind
	}
	return (name == "" || name == consumer.Name) && (kind == "" || strings.EqualFold(kind, consumer.Kind))
}

func (f Filter) matchesType(resourceType string) bool {
	return f.ResourceType == "" || f.ResourceType == resourceType || f.ResourceType == shortType(resourceType)
}

// shortType is what follows the last slash of a resource type.
func shortType(resourceType string) string {
	return resourceType[strings.LastIndex(resourceType, "/")+1:]
}

// Report is how much of their quota consumers use.
type Report struct {
	Items []Item `json:"items"`
	// Claims are the claims behind them, if they were asked for.
	Claims []ClaimItem `json:"claims,omitzero"`
	// Increases are the QuotaIncreases in the namespaces.
	Increases []IncreaseItem `json:"increases,omitempty"`
	// Notes say what else there is to know.
	Notes []string `json:"notes,omitempty"`

	withClaims bool
}

// Item is one resource type of one consumer, in base units.
type Item struct {
	ConsumerRef  quotav1alpha1.ConsumerRef `json:"consumerRef"`
	ResourceType string                    `json:"resourceType"`
	Used         int64                     `json:"used"`
	Limit        int64                     `json:"limit"`
	Available    int64                     `json:"available"`
	// Utilization is which part of the limit is used, or nil where something is used and nothing is granted.
	Utilization *float64 `json:"utilization"`
	// Waiting is how many claims on it wait for quota, or nil where that could not be counted.
	Waiting *int `json:"waiting,omitempty"`
	// Display is the same in display units, or nil while the resource type has no active registration.
	Display *quotav1alpha1.DisplayedQuota `json:"display,omitempty"`
}

func (i Item) usage() Usage {
	return Usage{Consumer: i.ConsumerRef, ResourceType: i.ResourceType, Used: i.Used, Limit: i.Limit}
}

func (i Item) waiting() int {
	if i.Waiting == nil {
		return 0
	}
	return *i.Waiting
}

func (i *Item) complete() {
	i.Utilization = nil
	if ratio := i.usage().Ratio(); !math.IsInf(ratio, 1) {
		i.Utilization = &ratio
	}
}

const (
	// pageSize is how many objects one request lists.
	pageSize = 500
	// claimsMax is how many claims are read at most, so that a report does not read a large cluster.
	claimsMax = 10_000
)

// reader reads a report.
type reader struct {
	api    client.Reader
	filter Filter
	// all are the items before the filter.
	all []Item
	// mayNotReadClaims is set if the user may not read claims.
	mayNotReadClaims bool
}

// Read reads the quota that matches the filter and that the user may see. Errors are an [UnknownError], and that of the API
// server about EffectiveResourceGrants; everything else that the user may not read is left out.
func Read(ctx context.Context, api client.Reader, filter Filter) (*Report, error) {
	r := &reader{api: api, filter: filter}
	report := &Report{Items: []Item{}, withClaims: filter.WithClaims}
	if err := r.readEffective(ctx); err != nil {
		return nil, err
	}
	notes, err := r.readHidden(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.readAllocations(ctx); err != nil {
		return nil, err
	}
	claims, isWhole, err := r.readClaims(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.check(ctx, claims); err != nil {
		return nil, err
	}
	for _, item := range r.all {
		if filter.matches(item.ConsumerRef, item.ResourceType) {
			report.Items = append(report.Items, item)
		}
	}
	report.Notes = notes
	countWaiting(report.Items, claims, isWhole)
	if !isWhole && !r.mayNotReadClaims {
		report.Notes = append(report.Notes, fmt.Sprintf("There are more than %d claims, so those that wait are not counted; name a consumer with --consumer.", claimsMax))
	}
	if report.Increases, err = r.readIncreases(ctx); err != nil {
		return nil, err
	}
	report.cut(filter)
	if filter.WithClaims {
		report.Claims = r.claimItems(claims, report.Items)
	}
	return report, nil
}

// cut sorts the items, and drops those that the filter leaves out by nearness and number.
func (r *Report) cut(filter Filter) {
	if filter.NearPercent > 0 {
		r.Items = slices.DeleteFunc(r.Items, func(i Item) bool {
			return i.usage().Ratio()*100 < float64(filter.NearPercent) && i.waiting() == 0
		})
	}
	byUse := func(a, b Item) int { return compare(a.usage(), b.usage()) }
	byConsumer := func(a, b Item) int {
		return cmp.Or(compareConsumers(a.ConsumerRef, b.ConsumerRef), cmp.Compare(a.ResourceType, b.ResourceType))
	}
	orders := map[SortBy]func(a, b Item) int{
		SortByConsumer:  byConsumer,
		SortByType:      func(a, b Item) int { return cmp.Or(cmp.Compare(a.ResourceType, b.ResourceType), byUse(a, b)) },
		SortByAvailable: func(a, b Item) int { return cmp.Or(cmp.Compare(a.Available, b.Available), byUse(a, b)) },
		SortByWaiting:   func(a, b Item) int { return cmp.Or(cmp.Compare(b.waiting(), a.waiting()), byUse(a, b)) },
	}
	order := orders[filter.SortBy]
	if order == nil {
		order = byUse
	}
	slices.SortFunc(r.Items, order)
	if more := len(r.Items) - filter.Limit; filter.Limit > 0 && more > 0 {
		r.Items = r.Items[:filter.Limit]
		r.Notes = append(r.Notes, fmt.Sprintf("%d more are left out by --limit.", more))
	}
}

// readEffective reads what is shown of consumers.
func (r *reader) readEffective(ctx context.Context) error {
	seen := map[quotav1alpha1.EffectiveResourceGrantSpec]bool{} // one that is being moved may be there twice
	return eachPage(ctx, r.api, &quotav1alpha1.EffectiveResourceGrantList{}, r.filter.Namespace, func(list *quotav1alpha1.EffectiveResourceGrantList) {
		for i := range list.Items {
			if shown := &list.Items[i]; !seen[shown.Spec] {
				seen[shown.Spec] = true
				r.all = append(r.all, itemOf(shown))
			}
		}
	})
}

// eachPage lists objects page by page.
func eachPage[T client.ObjectList](ctx context.Context, api client.Reader, list T, namespace string, f func(T), options ...client.ListOption) error {
	for next := ""; ; {
		all := append([]client.ListOption{client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next)}, options...)
		if err := api.List(ctx, list, all...); err != nil {
			return err
		}
		f(list)
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// IsOutOfReach reports whether an error means that the user may not read something, or that it does not exist.
func IsOutOfReach(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err)
}

func itemOf(shown *quotav1alpha1.EffectiveResourceGrant) Item {
	status := &shown.Status
	item := Item{
		ConsumerRef: shown.Spec.ConsumerRef, ResourceType: shown.Spec.ResourceType,
		Used: status.TotalAllocated, Limit: status.TotalLimit, Available: status.Available, Display: status.Display,
	}
	item.complete()
	return item
}
