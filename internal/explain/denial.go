package explain

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

// Exceeded says that quota is used up, in the form that users of core ResourceQuota know,
// for every resource type that fell short.
func Exceeded(c *catalog.Catalog, consumer quotav1alpha1.ConsumerRef, shortages []ledger.Shortage) string {
	parts := make([]string, 0, len(shortages))
	for _, s := range shortages {
		parts = append(parts, shortage(registrationOf(c, s.ResourceType), consumer, s))
	}
	return fmt.Sprintf("exceeded quota: %s. %s", strings.Join(parts, "; "), advice(c, consumer, shortages))
}

// Waits says why a claim waits, which whoever made the object of the claim reads, for every resource type that fell
// short.
func Waits(c *catalog.Catalog, consumer quotav1alpha1.ConsumerRef, shortages []ledger.Shortage) string {
	parts := make([]string, 0, len(shortages))
	for _, s := range shortages {
		r := registrationOf(c, s.ResourceType)
		text := fmt.Sprintf("Quota for %s exceeded: requested %s, %s available (%s/%s used", s.ResourceType,
			Amount(s.Requested, r), number(s.Available, r.Factor), number(s.Used, r.Factor), Amount(s.Limit, r))
		if of := part(s); of != "" {
			text += fmt.Sprintf(", %s of %s %s", number(s.Matching, r.Factor), number(s.Limit, r.Factor), of)
		}
		parts = append(parts, text+")")
	}
	return strings.Join(parts, "; ") + ". " + advice(c, consumer, shortages)
}

// advice says what to do about shortages: what their registrations say, or the platform, or what can always be done.
func advice(c *catalog.Catalog, consumer quotav1alpha1.ConsumerRef, shortages []ledger.Shortage) string {
	var all []string
	for _, s := range shortages {
		text := cmp.Or(registrationOf(c, s.ResourceType).ExceededAdvice, c.ExceededAdvice)
		if text == "" {
			text = fmt.Sprintf("Delete what %s no longer needs, or ask an administrator to grant it more.", Consumer(consumer))
		}
		if text = strings.ReplaceAll(text, naming.ConsumerName, consumer.Name); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, " ")
}

// registrationOf returns the registration of a resource type or, if it went away since the decision, one of base units
// of the bare type.
func registrationOf(c *catalog.Catalog, resourceType string) *catalog.Registration {
	if r := c.Registration(resourceType); r != nil {
		return r
	}
	return &catalog.Registration{ResourceType: resourceType, DisplayUnit: "unit", Factor: 1}
}

func shortage(r *catalog.Registration, consumer quotav1alpha1.ConsumerRef, s ledger.Shortage) string {
	text := fmt.Sprintf("%s quota of %s, requested: %s, used: %s, limited: %s",
		r.Subject(), Consumer(consumer), Amount(s.Requested, r), number(s.Used, r.Factor), number(s.Limit, r.Factor))
	if of := part(s); of != "" {
		text += fmt.Sprintf(" (%s, available: %s)", of, number(s.Available, r.Factor))
	}
	return text
}

// part says which part of a limit a request may use, or nothing if it may use all of it and has no dimensions.
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

// Consumer names a consumer as people do: by kind and name, and by namespace where it has one.
func Consumer(consumer quotav1alpha1.ConsumerRef) string {
	if consumer.Namespace == "" {
		return consumer.Kind + " " + consumer.Name
	}
	return fmt.Sprintf("%s %s in namespace %s", consumer.Kind, consumer.Name, consumer.Namespace)
}

// Impossible says why a ledger cannot take a reservation, other than for lack of quota.
func Impossible(consumer quotav1alpha1.ConsumerRef, code ledger.Code) error {
	if code == ledger.Overflow {
		return fmt.Errorf("the amounts, added to what %s already uses, are too large to count", Consumer(consumer))
	}
	return fmt.Errorf("the ledger of %s cannot take its claim (%s)", Consumer(consumer), code)
}
