package usage

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/usage/holders"
)

// ClaimItem is a holder behind the usage: a claim, or an object that counts.
type ClaimItem struct {
	ConsumerRef quotav1alpha1.ConsumerRef `json:"consumerRef"`
	// Namespace and Name are those of the claim. An object that counts may have none.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// For is the object, as Kind/name, and ForNamespace is the namespace of the object, if it has one.
	For          string                          `json:"for"`
	ForNamespace string                          `json:"forNamespace,omitempty"`
	Requests     []quotav1alpha1.ResourceRequest `json:"requests"`
	// State is Granted, or the reason why not, and Message has the details.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`

	object   quotav1alpha1.UnversionedObjectReference
	requests string
}

// Object is the object that it pays for, or empty.
func (c *ClaimItem) Object() quotav1alpha1.UnversionedObjectReference { return c.object }

// IsGranted reports whether it holds its quota.
func (c *ClaimItem) IsGranted() bool { return c.State == stateGranted }

// stateGranted is the state of a granted claim, and statePending that of a claim without a decision.
const (
	stateGranted = "Granted"
	statePending = "Pending"
)

func stateOf(claim *quotav1alpha1.ResourceClaim) (state, message string) {
	granted := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	switch {
	case granted == nil:
		return statePending, ""
	case granted.Status == metav1.ConditionTrue:
		return stateGranted, ""
	default:
		return granted.Reason, granted.Message
	}
}

// readClaims reads the claims of the matching consumers. isWhole is false if there are too many, or the user may not
// read claims.
func (r *reader) readClaims(ctx context.Context) (claims []quotav1alpha1.ResourceClaim, isWhole bool, err error) {
	var selection []client.ListOption
	if !r.filter.WithClaims { // a view never waits
		selection = append(selection, client.MatchingLabelsSelector{Selector: claimcache.OfRecord()})
	}
	if _, name, hasKind := strings.Cut(r.filter.Consumer, "/"); r.filter.Consumer != "" {
		if !hasKind {
			name = r.filter.Consumer
		}
		selection = append(selection, client.MatchingFields{"spec.consumerRef.name": name})
	}
	// The claims on a quota may be in other namespaces.
	list, namespace := &quotav1alpha1.ResourceClaimList{}, ""
	for next := ""; ; {
		options := append([]client.ListOption{client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next)}, selection...)
		err := r.api.List(ctx, list, options...)
		if apierrors.IsForbidden(err) && namespace != r.filter.Namespace {
			namespace = r.filter.Namespace
			continue
		}
		if IsOutOfReach(err) {
			r.mayNotReadClaims = true
			return nil, false, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("list the claims: %w", err)
		}
		for i := range list.Items {
			if r.filter.matchesConsumer(list.Items[i].Spec.ConsumerRef) {
				claims = append(claims, list.Items[i])
			}
		}
		if next = list.Continue; next == "" {
			return claims, true, nil
		}
		if len(claims) >= claimsMax {
			return claims, false, nil
		}
	}
}

// countWaiting sets how many claims wait for each item.
func countWaiting(items []Item, claims []quotav1alpha1.ResourceClaim, isWhole bool) {
	if !isWhole {
		return
	}
	all := make([]Usage, 0, len(items))
	for _, item := range items {
		all = append(all, item.usage())
	}
	waiting := map[quotav1alpha1.ConsumerRef][][]quotav1alpha1.ResourceRequest{}
	for i := range claims {
		if state, _ := stateOf(&claims[i]); state == quotav1alpha1.ReasonQuotaExceeded {
			waiting[claims[i].Spec.ConsumerRef] = append(waiting[claims[i].Spec.ConsumerRef], claims[i].Spec.Requests)
		}
	}
	counts := countShort(waiting, all)
	for i := range items {
		if items[i].ConsumerRef.Kind != allocationKind {
			count := counts[items[i].ConsumerRef][items[i].ResourceType]
			items[i].Waiting = &count
		}
	}
}

// claimItems returns the holders of the reported items: waiting claims first, then the largest.
func (r *reader) claimItems(all []holders.Holder, items []Item) []ClaimItem {
	isReported, units := r.reporting(items), unitsOf(items)
	found := []ClaimItem{}
	for i := range all {
		if isReported(&all[i]) {
			found = append(found, claimItem(&all[i], units))
		}
	}
	r.sortClaims(found)
	if limit := r.filter.Limit; limit > 0 && len(found) > limit {
		found = found[:limit]
	}
	return found
}

// reporting returns a filter of the holders of the reported items or, for one namespace, in that namespace.
func (r *reader) reporting(items []Item) func(*holders.Holder) bool {
	reported := map[pair]bool{}
	for _, item := range items {
		reported[pair{item.ConsumerRef, item.ResourceType}] = true
	}
	return func(h *holders.Holder) bool {
		if selector := r.filter.Selector; selector != nil && !selector.Empty() && (h.Claim == nil || !selector.Matches(labels.Set(h.Claim.Labels))) {
			return false
		}
		isThere := r.filter.Namespace != "" && r.filter.matchesConsumer(h.Consumer) &&
			(h.Counts && h.Object.Namespace == r.filter.Namespace || h.Claim != nil && h.Claim.Namespace == r.filter.Namespace)
		return slices.ContainsFunc(h.Requests, func(request quotav1alpha1.ResourceRequest) bool {
			return (isThere || reported[pair{h.Consumer, request.ResourceType}]) && r.filter.matchesType(request.ResourceType)
		})
	}
}

// unitsOf returns the units of items' resource types, as far as the items show them.
func unitsOf(items []Item) map[string]Unit {
	units := map[string]Unit{}
	for _, item := range items {
		if unit, ok := UnitOf(item); ok {
			units[item.ResourceType] = unit
		}
	}
	return units
}

func claimItem(h *holders.Holder, units map[string]Unit) ClaimItem {
	item := ClaimItem{ConsumerRef: h.Consumer, object: h.Object, ForNamespace: h.Object.Namespace, Requests: h.Requests, State: stateGranted}
	if h.Object.Kind != "" {
		item.For = h.Object.Kind + "/" + h.Object.Name
	}
	if h.Claim != nil {
		item.Namespace, item.Name = h.Claim.Namespace, h.Claim.Name
	}
	if !h.Counts {
		item.State, item.Message = stateOf(h.Claim)
	}

	var texts []string
	for _, request := range h.Requests {
		texts = append(texts, shortType(request.ResourceType)+"="+units[request.ResourceType].Amount(request.Amount))
	}
	item.requests = strings.Join(texts, ", ")
	return item
}

// sortClaims sorts waiting claims first and, for each consumer, the largest claims first.
func (r *reader) sortClaims(claims []ClaimItem) {
	isGranted := func(i ClaimItem) int {
		if i.State == stateGranted {
			return 1
		}
		return 0
	}
	slices.SortFunc(claims, func(a, b ClaimItem) int {
		return cmp.Or(cmp.Compare(isGranted(a), isGranted(b)), naming.CompareConsumers(a.ConsumerRef, b.ConsumerRef),
			cmp.Compare(r.mostOf(b), r.mostOf(a)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.ForNamespace, b.ForNamespace), cmp.Compare(a.For, b.For))
	})
}

// mostOf returns the largest amount in a claim that the filter matches.
func (r *reader) mostOf(claim ClaimItem) (most int64) {
	for _, request := range claim.Requests {
		if r.filter.matchesType(request.ResourceType) {
			most = max(most, request.Amount)
		}
	}
	return most
}

func claimRows(claims []ClaimItem) [][]string {
	rows := [][]string{{"CONSUMER", "CLAIM", "FOR", "REQUESTS", "STATE"}}
	for _, c := range claims {
		claim, object := c.Namespace+"/"+c.Name, c.For
		if c.Name == "" {
			claim = "-"
		}
		if c.ForNamespace != "" && c.ForNamespace != c.Namespace {
			object = c.ForNamespace + "/" + object
		}
		rows = append(rows, []string{NameOf(c.ConsumerRef), claim, object, c.requests, c.State})
	}
	return rows
}

// Unit is the display unit of a resource type, as far as the user may know it. The zero value displays base units.
type Unit struct {
	// Name is the name of one display unit. It equals Factor base units.
	Name   string
	Factor int64
	// Base is the name of a base unit, if it is known.
	Base string
}

// UnitOf derives the unit from a displayed amount, since tenants may not read registrations.
func UnitOf(item Item) (Unit, bool) {
	if item.Display == nil {
		return Unit{}, false
	}
	for _, one := range []struct {
		base  int64
		shown string
	}{{item.Limit, item.Display.TotalLimit}, {item.Used, item.Display.TotalAllocated}, {item.Available, item.Display.Available}} {
		number, name, _ := strings.Cut(one.shown, " ")
		if value, err := strconv.ParseFloat(number, 64); err == nil && value > 0 && one.base > 0 {
			return Unit{Name: message.Singular(name), Factor: int64(math.Round(float64(one.base) / value))}, true
		}
	}
	return Unit{}, false
}

// Amount formats an amount of base units as denials do.
func (u Unit) Amount(amount int64) string { return u.format(amount, message.Amount) }

// AmountUp is Amount, but rounds up instead of cutting digits: a limit of the returned amount is enough.
func (u Unit) AmountUp(amount int64) string { return u.format(amount, message.AmountUp) }

// Parse parses an amount as [Unit.Amount] writes it, and returns base units. A number without a unit is in display
// units.
func (u Unit) Parse(text string) (int64, error) {
	amount, err := message.ParseAmount(text, &catalog.Registration{DisplayUnit: u.Name, Factor: max(u.Factor, 1), BaseUnit: u.Base})
	return int64(amount), err
}

func (u Unit) format(amount int64, format func(ledger.Amount, *catalog.Registration) string) string {
	if u.Name == "" || u.Factor <= 0 {
		return strconv.FormatInt(amount, 10)
	}
	return format(ledger.Amount(amount), &catalog.Registration{DisplayUnit: u.Name, Factor: u.Factor, BaseUnit: u.Base})
}
