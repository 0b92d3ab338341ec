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
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/usage/holders"
)

// Filter selects the reported quota. An empty field selects everything.
type Filter struct {
	// Namespace is the namespace of the quota.
	Namespace string
	// Consumer is the name of a consumer, or KIND/NAME, with the kind in any case.
	Consumer string
	// ResourceType is a resource type, or the part after its last slash.
	ResourceType string
	// NearPercent excludes items below this part of their limit and without a waiting claim.
	NearPercent int
	// Limit is the largest number of items, the first in the order of SortBy. 0: all.
	Limit  int
	SortBy SortBy
	// WithClaims adds the claims and the objects that count, and Selector selects by the labels of claims. It may be nil
	// for all.
	WithClaims bool
	Selector   labels.Selector
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

// shortType returns the part of a resource type after its last slash.
func shortType(resourceType string) string {
	return resourceType[strings.LastIndex(resourceType, "/")+1:]
}

// Report is the utilization of consumers.
type Report struct {
	Items []Item `json:"items"`
	// Claims are the claims behind them and the objects that count, if requested.
	Claims []ClaimItem `json:"claims,omitzero"`
	// Increases are the QuotaIncreases in the namespaces.
	Increases []IncreaseItem `json:"increases,omitempty"`
	// Notes are further remarks for the user.
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
	// Held is what overdue requests hold.
	Held int64 `json:"held,omitempty"`
	// Feature is On or Off for a resource type of features, and empty for every other.
	Feature quotav1alpha1.FeatureState `json:"feature,omitempty"`
	// Utilization is the used part of the limit, or nil if something is used without a limit.
	Utilization *float64 `json:"utilization"`
	// Waiting is the number of claims on it waiting for quota, or nil if the number is unknown.
	Waiting *int `json:"waiting,omitempty"`
	// Display has the amounts in display units, or nil without an active registration.
	Display *quotav1alpha1.DisplayedQuota `json:"display,omitempty"`
	// GrantRefs are the grants that make up the limit, as far as they are shown.
	GrantRefs []quotav1alpha1.EffectiveGrantRef `json:"grantRefs,omitempty"`
}

func (i Item) usage() Usage {
	return Usage{Consumer: i.ConsumerRef, ResourceType: i.ResourceType, Used: i.Used, Limit: i.Limit, IsFeature: i.Feature != ""}
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
	// claimsMax bounds the claims of a report, and the objects that count, to avoid reading a large cluster.
	claimsMax = 10_000
	// questionsMax bounds how many consumers a report asks about one by one.
	questionsMax = 20
)

// reader reads a report.
type reader struct {
	api    client.Client
	filter Filter
	// all are the items before the filter.
	all []Item
	// mayNotReadClaims is set if the user may not read claims.
	mayNotReadClaims bool
}

// Read reads the quota within the filter and within the user's permissions. It returns an [UnknownError], or the API
// server's error about EffectiveResourceGrants. It leaves out everything else hidden from the user.
func Read(ctx context.Context, api client.Client, filter Filter) (*Report, error) {
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
		counted, err := r.readCounted(ctx, report.Items)
		if err != nil {
			return nil, err
		}
		report.Claims = r.claimItems(holders.Join(claims, counted), report.Items)
		report.note(counted)
	}
	return report, nil
}

// cut sorts the items, and drops the items excluded by NearPercent and Limit.
func (r *Report) cut(filter Filter) {
	if filter.NearPercent > 0 {
		r.Items = slices.DeleteFunc(r.Items, func(i Item) bool {
			return i.usage().Ratio()*100 < float64(filter.NearPercent) && i.waiting() == 0
		})
	}
	byUse := func(a, b Item) int { return compare(a.usage(), b.usage()) }
	byConsumer := func(a, b Item) int {
		return cmp.Or(naming.CompareConsumers(a.ConsumerRef, b.ConsumerRef), cmp.Compare(a.ResourceType, b.ResourceType))
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
		r.Notes = append(r.Notes, fmt.Sprintf("Left out by --limit: %d more.", more))
	}
}

// readEffective reads the effective grants of consumers.
func (r *reader) readEffective(ctx context.Context) error {
	seen := map[quotav1alpha1.EffectiveResourceGrantSpec]bool{} // a moved one may exist twice
	return eachPage(ctx, r.api, &quotav1alpha1.EffectiveResourceGrantList{}, r.filter.Namespace, func(list *quotav1alpha1.EffectiveResourceGrantList) {
		for i := range list.Items {
			if shown := &list.Items[i]; !seen[shown.Spec] {
				seen[shown.Spec] = true
				r.all = append(r.all, ItemOf(shown))
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

// IsOutOfReach reports whether an error means that the user may not read a resource, or that it does not exist.
func IsOutOfReach(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err)
}

// ItemOf returns the item of an effective grant.
func ItemOf(shown *quotav1alpha1.EffectiveResourceGrant) Item {
	status := &shown.Status
	item := Item{
		ConsumerRef: shown.Spec.ConsumerRef, ResourceType: shown.Spec.ResourceType,
		Used: status.TotalAllocated, Limit: status.TotalLimit, Available: status.Available, Display: status.Display,
		GrantRefs: status.GrantRefs, Feature: status.Feature, Held: status.Held,
	}
	item.complete()
	return item
}
