package message

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

// Denial is the reason why a consumer cannot have the requested amounts. Its form is the same for requests and for
// waiting claims.
type Denial struct {
	Consumer   quotav1alpha1.ConsumerRef
	Shortfalls []Shortfall
	// IsMissing is set if the consumer does not exist.
	IsMissing bool
}

// Shortfall is a consumer's lack of one resource type.
type Shortfall struct {
	ledger.Shortage
	// Held is what requests in flight hold. It is not part of Used.
	Held ledger.Amount
	// Total is the object's total use if it exceeds the request; otherwise 0.
	Total ledger.Amount
	// Holders are the largest holders of the resource type.
	Holders []Holder
}

// Holder is an object with its amount of a resource type.
type Holder struct {
	Name   string
	Amount ledger.Amount
}

// isOverWhole reports whether the request exceeds everything within the consumer's grants.
func (s *Shortfall) isOverWhole() bool {
	return max(s.Requested, s.Total) > min(s.Limit, max(s.Matching, s.Available))
}

// IsUngranted reports whether no grant covers the request at all.
func (s *Shortfall) IsUngranted() bool { return s.Limit == 0 || s.Matching == 0 && s.Available == 0 }

// Of returns the denial for shortages of a consumer.
func Of(consumer quotav1alpha1.ConsumerRef, shortages []ledger.Shortage) *Denial {
	d := &Denial{Consumer: consumer}
	for _, s := range shortages {
		d.Shortfalls = append(d.Shortfalls, Shortfall{Shortage: s})
	}
	return d
}

// Exceeded returns the sentences of a denial, see [Denial.Sentences].
func Exceeded(c *catalog.Catalog, consumer quotav1alpha1.ConsumerRef, shortages []ledger.Shortage) string {
	return Of(consumer, shortages).Sentences(c)
}

// Waits returns the reason of a claim's wait, and the condition for its end.
func Waits(c *catalog.Catalog, consumer quotav1alpha1.ConsumerRef, shortages []ledger.Shortage) string {
	d := Of(consumer, shortages)
	until := "there is room"
	if slices.ContainsFunc(d.Shortfalls, func(s Shortfall) bool { return s.isOverWhole() }) {
		until = "the limit is high enough"
	}
	return d.Sentences(c, fmt.Sprintf("The claim waits, and is granted by itself once %s.", until))
}

// Sentences returns the message of a denial. It begins with every shortfall, in the familiar form of the core
// ResourceQuota. The holders, the advice, more, and the place of the quota objects follow.
func (d *Denial) Sentences(c *catalog.Catalog, more ...string) string {
	parts := make([]string, 0, len(d.Shortfalls))
	for i := range d.Shortfalls {
		s := &d.Shortfalls[i]
		parts = append(parts, d.shortfall(registrationOf(c, s.ResourceType), s))
	}
	sentences := []string{"exceeded quota: " + strings.Join(parts, "; ") + "."}
	if d.IsMissing {
		return strings.Join(append(sentences, fmt.Sprintf("There is no %s: check the name.", Consumer(d.Consumer))), " ")
	}
	sentences = append(sentences, d.holders(c)...)
	sentences = append(append(sentences, d.advice(c)...), more...)
	return strings.Join(append(sentences, d.where(c)...), " ")
}

// where names the namespace with the quota objects of the consumer, and the command to ask for more.
func (d *Denial) where(c *catalog.Catalog) []string {
	if c.ConsumerNamespaces == nil {
		return nil
	}
	namespace := c.ConsumerNamespace(d.Consumer)
	text := "To see its quota: kubectl get ergrant -n " + namespace
	if command := d.registered(c).request(namespace); command != "" {
		text += "; to ask for more: " + command
	}
	return []string{text}
}

// These are parts of answers about quota that requests hold before anybody has seen their effect. Programs that explain
// answers look for them.
const (
	// HeldInFlight is in the answer to a request that would fit without the requests in flight of others.
	HeldInFlight = "requests in flight hold"
	// HeldByRequester is in the answer to a user whose own requests in flight hold as much as stays free for others.
	HeldByRequester = "already hold quota of"
	// HeldUntilFailed is in the answer to a user whose requests held quota that others needed, and then failed.
	HeldUntilFailed = "failed while others were refused"
)

// Hidden returns the message of a denial for users who may not see the figures.
func (d *Denial) Hidden(c *catalog.Catalog) string {
	subjects := make([]string, 0, len(d.Shortfalls))
	for i := range d.Shortfalls {
		subjects = append(subjects, registrationOf(c, d.Shortfalls[i].ResourceType).Subject())
	}
	text := fmt.Sprintf("exceeded quota: the quota of %s does not allow it (%s). Check that %s should pay, or ask an administrator.",
		Consumer(d.Consumer), strings.Join(slices.Compact(subjects), ", "), Consumer(d.Consumer))
	if c.ConsumerNamespaces == nil {
		return text
	}
	return fmt.Sprintf("%s If you may see its quota: kubectl get ergrant -n %s", text, c.ConsumerNamespace(d.Consumer))
}

// shortfall writes the requested amount, and the figures. Numbers without a unit are in the unit of the request.
func (d *Denial) shortfall(r *catalog.Registration, s *Shortfall) string {
	amount := d.amounts(r, s)
	text := fmt.Sprintf("%s quota of %s, requested: %s", r.Subject(), Consumer(d.Consumer), Amount(s.Requested, r))
	if s.Total > s.Requested {
		text += fmt.Sprintf(" (%s in total)", Amount(s.Total, r))
	}
	text += fmt.Sprintf(", used: %s, limited: %s", amount(s.Used), amount(s.Limit))
	var notes []string
	if of := part(s.Shortage); of != "" {
		notes = append(notes, of)
	}
	if len(notes) > 0 || s.Available > 0 {
		notes = append(notes, "available: "+amount(s.Available))
	}
	if s.Held > 0 {
		notes = append(notes, "held by requests in flight: "+amount(s.Held))
	}
	if len(notes) > 0 {
		text += fmt.Sprintf(" (%s)", strings.Join(notes, ", "))
	}
	return text
}

// amounts returns the format for the amounts of a shortfall: without a unit, unless one of them needs its own. Then
// nothing is in that unit, too.
func (d *Denial) amounts(r *catalog.Registration, s *Shortfall) func(ledger.Amount) string {
	for _, each := range []ledger.Amount{s.Requested, s.Used, s.Held, s.Limit, s.Available} {
		if name, _ := unitFor(each, r); name != r.DisplayUnit {
			return func(a ledger.Amount) string {
				if a == 0 {
					return "0 " + unit("0", name)
				}
				return Amount(a, r)
			}
		}
	}
	return func(a ledger.Amount) string { return number(a, r.Factor) }
}

// holders names the largest holders of each resource type that is short.
func (d *Denial) holders(c *catalog.Catalog) []string {
	var sentences []string
	for i := range d.Shortfalls {
		s := &d.Shortfalls[i]
		if len(s.Holders) == 0 || s.isOverWhole() {
			continue
		}
		r := registrationOf(c, s.ResourceType)
		names := make([]string, 0, len(s.Holders))
		for _, holder := range s.Holders {
			names = append(names, fmt.Sprintf("%s (%s)", holder.Name, Amount(holder.Amount, r)))
		}
		what := "It"
		if len(d.Shortfalls) > 1 {
			what = s.ResourceType
		}
		sentences = append(sentences, fmt.Sprintf("%s is used most by %s.", what, strings.Join(names, ", ")))
	}
	return sentences
}

// advice returns the advice for each shortfall, without duplicates.
func (d *Denial) advice(c *catalog.Catalog) []string {
	var all []string
	for i := range d.Shortfalls {
		finding, advice := d.adviceOn(c, &d.Shortfalls[i])
		for _, text := range []string{finding, advice} {
			if text != "" && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}

// AdviceOn returns the advice for a consumer with a shortage of one resource type.
func AdviceOn(c *catalog.Catalog, consumer quotav1alpha1.ConsumerRef, s ledger.Shortage) string {
	d := Of(consumer, []ledger.Shortage{s})
	_, advice := d.adviceOn(c, &d.Shortfalls[0])
	return advice
}

// adviceOn returns a finding, if the figures do not explain the shortfall by themselves, and the advice: that of the
// registration, of the platform, or a general one. Deleting helps only if it can make enough room.
func (d *Denial) adviceOn(c *catalog.Catalog, s *Shortfall) (finding, advice string) {
	given := strings.ReplaceAll(cmp.Or(registrationOf(c, s.ResourceType).ExceededAdvice, c.ExceededAdvice), naming.ConsumerName, d.Consumer.Name)
	consumer, administrator := Consumer(d.Consumer), d.administrator(c)
	switch {
	case s.IsUngranted():
		to := consumer
		if s.Limit > 0 {
			to += " " + part(s.Shortage)
		}
		return fmt.Sprintf("Nothing of it is granted to %s.", to), cmp.Or(given, fmt.Sprintf("Ask %s for a grant.", administrator))
	case s.isOverWhole():
		return "That is more than the whole limit.", cmp.Or(given, fmt.Sprintf("Ask for less, or ask %s to raise the limit.", administrator))
	default:
		return "", cmp.Or(given, fmt.Sprintf("Delete what %s no longer needs, or ask %s to grant it more.", consumer, administrator))
	}
}

// administrator names a person with the right to grant: of the service of the resource types, if all have the same.
func (d *Denial) administrator(c *catalog.Catalog) string {
	owner := registrationOf(c, d.Shortfalls[0].ResourceType).Owner
	isOther := func(s Shortfall) bool { return registrationOf(c, s.ResourceType).Owner != owner }
	if owner == "" || slices.ContainsFunc(d.Shortfalls, isOther) {
		return "an administrator"
	}
	return "an administrator of " + owner
}

// registrationOf returns the registration of a resource type. If somebody removed it since the decision, it returns
// one with the bare type and base units.
func registrationOf(c *catalog.Catalog, resourceType string) *catalog.Registration {
	if r := c.Registration(resourceType); r != nil {
		return r
	}
	return &catalog.Registration{ResourceType: resourceType, DisplayUnit: "unit", Factor: 1}
}

// part names the part of a limit that a request may use. It is empty if the request may use all of it and has no
// dimensions.
func part(s ledger.Shortage) string {
	switch {
	case len(s.Dimensions.Map()) > 0:
		return "for " + s.Dimensions.String()
	case s.Matching < s.Limit:
		return "without dimensions"
	default:
		return ""
	}
}

// Consumer returns kind and name of a consumer, with the namespace if there is one.
func Consumer(consumer quotav1alpha1.ConsumerRef) string {
	if consumer.Namespace == "" {
		return consumer.Kind + " " + consumer.Name
	}
	return fmt.Sprintf("%s %s in namespace %s", consumer.Kind, consumer.Name, consumer.Namespace)
}

// FullError means that a ledger has no room for a claim. There may be room later.
type FullError struct{ message string }

func (e *FullError) Error() string { return e.message }

// Impossible returns the reason why a ledger cannot take a reservation, other than for lack of quota. For lack of room
// in the ledger it is a [FullError].
func Impossible(consumer quotav1alpha1.ConsumerRef, code ledger.Code) error {
	switch code {
	case ledger.Overflow:
		return fmt.Errorf("the amounts, added to what %s already uses, are too large to count", Consumer(consumer))
	case ledger.BalancesFull:
		return &FullError{fmt.Sprintf("%s uses %d different sets of dimensions of one resource type, and cannot use more. "+
			"Delete what it no longer needs, or use dimensions that are in use already", Consumer(consumer), ledger.BalancesMax)}
	case ledger.LedgerFull:
		return &FullError{fmt.Sprintf("the ledger of %s is full: its grants, the sets of dimensions in use and the claims in flight take %d KiB. "+
			"Delete what it no longer needs, use fewer different dimensions, or ask an administrator to merge its grants", Consumer(consumer), ledger.BytesMax>>10)}
	default:
		return fmt.Errorf("the ledger of %s cannot take its claim (%s)", Consumer(consumer), code)
	}
}
