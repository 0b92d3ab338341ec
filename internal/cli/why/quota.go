package why

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/usage"
	"github.com/bursar/bursar/internal/usage/holders"
)

// denial matches the payer in a denial: "TYPE quota of KIND NAME in namespace NAMESPACE".
var denial = regexp.MustCompile(`(\S+ )?quota of ([A-Z][A-Za-z0-9]*) ([a-z0-9][-a-z0-9.]*[a-z0-9]|[a-z0-9])(?: in namespace ([a-z0-9][-a-z0-9]*))?[, ]`)

// parse finds the payer in an error. A later step finds the resource types, among those of the consumer.
func parse(text string) (Payment, bool) {
	text = strings.Join(strings.Fields(text), " ") + " "
	match := denial.FindStringSubmatch(text)
	if match == nil {
		return Payment{}, false
	}
	return Payment{Consumer: quotav1alpha1.ConsumerRef{Kind: match[2], Name: match[3], Namespace: match[4]}, By: text}, true
}

// complete adds the consumer's quota to each payment.
func (r *Reader) complete(ctx context.Context, e *Explanation) error {
	for i := range e.Payments {
		if err := r.completeOne(ctx, e, &e.Payments[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) completeOne(ctx context.Context, e *Explanation, p *Payment) error {
	named := client.MatchingFields{"spec.consumerRef.kind": p.Consumer.Kind, "spec.consumerRef.name": p.Consumer.Name}
	var effective quotav1alpha1.EffectiveResourceGrantList
	isWhole, err := r.list(ctx, &effective, named)
	if err != nil {
		return fmt.Errorf("list the effective grants: %w", err)
	}
	shown := effectiveFor(p, effective.Items)
	p.IsHidden = !isWhole && len(shown) == 0 // all quota of a consumer is in one namespace
	if p.Requests == nil {
		r.findRequests(p, shown)
	}
	var claims quotav1alpha1.ResourceClaimList
	if _, err := r.list(ctx, &claims, named); err != nil {
		return fmt.Errorf("list the claims: %w", err)
	}
	for _, request := range p.Requests {
		counted, err := r.ask(ctx, e, holders.Question{Consumer: &p.Consumer, ResourceType: request.ResourceType, OrNamespace: r.Namespace, Max: holdersMax})
		if err != nil {
			return err
		}
		t := r.typeOf(p, request, shown[request.ResourceType])
		t.Holders = namesOf(counted, holders.Join(claims.Items, counted), p.Consumer, request.ResourceType, r.unit(itemOf(p, request, shown[request.ResourceType])))
		p.Types = append(p.Types, t)
	}
	p.Ask = askFor(p, shown)
	return nil
}

// askFor returns the command to ask for the missing amounts of a payment, or "" without a known shortage.
func askFor(p *Payment, shown map[string]*quotav1alpha1.EffectiveResourceGrant) string {
	var shortages []ledger.Shortage
	namespace := ""
	for _, request := range p.Requests {
		grant := shown[request.ResourceType]
		if grant == nil || grant.Status.Feature != "" || p.Claim == stateGranted || request.Amount <= grant.Status.Available {
			continue
		}
		dimensions, err := ledger.NewDimensions(request.Dimensions)
		if err != nil {
			continue // no claim can have them
		}
		namespace = grant.Namespace
		shortages = append(shortages, ledger.Shortage{
			ResourceType: request.ResourceType, Dimensions: dimensions, Requested: ledger.Amount(request.Amount),
			Used: ledger.Amount(grant.Status.TotalAllocated), Limit: ledger.Amount(grant.Status.TotalLimit),
			Available: ledger.Amount(max(grant.Status.Available, 0)),
		})
	}
	return message.Request(p.Consumer, namespace, shortages)
}

// effectiveFor returns the effective grants of a payment's consumer, by resource type. It completes the reference to
// the consumer, because an error lacks the group.
func effectiveFor(p *Payment, effective []quotav1alpha1.EffectiveResourceGrant) map[string]*quotav1alpha1.EffectiveResourceGrant {
	shown := map[string]*quotav1alpha1.EffectiveResourceGrant{}
	for i := range effective {
		each := &effective[i]
		if isOf := each.Spec.ConsumerRef; isOf == p.Consumer || p.Consumer.APIGroup == "" && isOf.Namespace == p.Consumer.Namespace {
			shown[each.Spec.ResourceType] = each
		}
	}
	for _, each := range shown {
		p.Consumer = each.Spec.ConsumerRef
	}
	return shown
}

// findRequests sets the resource types of an error: the published ones in its text or, without any there, all of them.
func (r *Reader) findRequests(p *Payment, shown map[string]*quotav1alpha1.EffectiveResourceGrant) {
	all := slices.Sorted(maps.Keys(shown))
	named := slices.DeleteFunc(slices.Clone(all), func(resourceType string) bool { return !r.isNamed(p.By, resourceType) })
	if p.IsVague = len(named) == 0; p.IsVague {
		named = all
	}
	for _, resourceType := range named {
		p.Requests = append(p.Requests, quotav1alpha1.ResourceRequest{ResourceType: resourceType})
	}
}

// hiddenDenial matches the subject of a denial without figures.
var hiddenDenial = regexp.MustCompile(`does not allow it \(([^)]*)\)`)

// isNamed reports whether an error is about a resource type: it names the type or, if the type counts objects of one
// kind, the kind.
func (r *Reader) isNamed(text, resourceType string) bool {
	if strings.Contains(text, resourceType) {
		return true
	}
	registration := r.registrations.Registration(resourceType)
	if registration == nil || registration.OnlyKind() == "" {
		return false
	}
	kind := registration.OnlyKind()
	if match := hiddenDenial.FindStringSubmatch(text); match != nil && slices.Contains(strings.Split(match[1], ", "), kind) {
		return true
	}
	return strings.Contains(text, kind+" quota of")
}

// itemOf returns what the user sees of a consumer's quota of the requested resource type.
func itemOf(p *Payment, request quotav1alpha1.ResourceRequest, shown *quotav1alpha1.EffectiveResourceGrant) usage.Item {
	if shown == nil {
		return usage.Item{ConsumerRef: p.Consumer, ResourceType: request.ResourceType}
	}
	return usage.ItemOf(shown)
}

// typeOf returns a consumer's quota of one resource type, without its holders.
func (r *Reader) typeOf(p *Payment, request quotav1alpha1.ResourceRequest, shown *quotav1alpha1.EffectiveResourceGrant) Type {
	item := itemOf(p, request, shown)
	t := Type{ResourceType: request.ResourceType}
	r.describe(&t, shown)
	if shown != nil {
		for _, grant := range shown.Status.GrantRefs {
			t.Grants = append(t.Grants, fmt.Sprintf("%s/%s gives %s", grant.Namespace, grant.Name, r.unit(item).Amount(grant.Amount)))
		}
	}
	unit := r.unit(item)
	t.Used, t.Limit, t.Available = unit.Amount(item.Used), unit.Amount(item.Limit), unit.Amount(item.Available)
	if item.Feature != "" {
		t.Limit, t.Available = string(item.Feature), string(item.Feature)
	}
	if shown == nil && p.IsHidden {
		t.Used, t.Limit, t.Available = "-", "-", "-"
	}
	if t.Requested = "-"; request.Amount > 0 {
		t.Requested = unit.Amount(request.Amount)
		if len(request.Dimensions) > 0 {
			t.Requested += fmt.Sprintf(" for %v", request.Dimensions)
		}
	}
	switch {
	case shown != nil || !p.IsHidden:
		t.Fits, t.Advice = r.assess(p, request, item, unit)
	case p.Claim == stateGranted:
		t.Fits = stateGranted
	default:
		t.Fits, t.Advice = "not shown to you", adviceOnHidden(p)
	}
	return t
}

// describe sets the names for people, from the registration or, for users without the right to read it, from the
// displayed quota.
func (r *Reader) describe(t *Type, shown *quotav1alpha1.EffectiveResourceGrant) {
	if registration := r.registrations.Registration(t.ResourceType); registration != nil {
		t.Name, t.Description, t.Owner = registration.DisplayName, registration.Description, registration.Owner
	} else if shown != nil && shown.Status.Display != nil {
		display := shown.Status.Display
		t.Name, t.Description, t.Owner = display.Name, display.Description, display.Owner
	}
}

// adviceOnHidden returns the next step for users without the right to see the quota of a consumer.
func adviceOnHidden(p *Payment) string {
	return fmt.Sprintf("You may not see the quota of %s: ask an administrator.", message.Consumer(p.Consumer))
}

// unit returns the unit of a resource type from its registration. For users without the right to read it, the unit
// comes from the displayed amounts.
func (r *Reader) unit(item usage.Item) usage.Unit {
	if registration := r.registrations.Registration(item.ResourceType); registration != nil {
		return usage.Unit{Name: registration.DisplayUnit, Factor: registration.Factor, Base: registration.BaseUnit}
	}
	unit, _ := usage.UnitOf(item)
	return unit
}

// assess returns whether a request fits, and the next step if not. An error does not name the requested amount; it was
// more than the available amount.
func (r *Reader) assess(p *Payment, request quotav1alpha1.ResourceRequest, item usage.Item, unit usage.Unit) (fits, advice string) {
	switch {
	case p.Claim == stateGranted:
		return stateGranted, ""
	case item.Feature != "":
		return "yes, it is a feature: only counted", ""
	case request.Amount > 0 && request.Amount <= item.Available:
		return "yes", ""
	}
	shortage := ledger.Shortage{
		ResourceType: request.ResourceType, Requested: ledger.Amount(cmp.Or(request.Amount, max(item.Available, 0)+1)),
		Used: ledger.Amount(item.Used), Limit: ledger.Amount(item.Limit), Matching: ledger.Amount(item.Limit), Available: ledger.Amount(item.Available),
	}
	advice = message.AdviceOn(r.registrations, p.Consumer, shortage)
	switch {
	case item.Limit == 0:
		return "no, nothing is granted", advice
	case request.Amount > item.Limit:
		return "no, it is more than the whole limit", advice
	case request.Amount > 0:
		left := min(item.Available, item.Limit-item.Used) // below 0 if the consumer is above its limit
		return fmt.Sprintf("no, %s short", unit.Amount(request.Amount-left)), advice
	case item.Available <= 0:
		return "no, nothing is left", advice
	default:
		return fmt.Sprintf("up to %s", unit.Amount(item.Available)), advice
	}
}
