package explain

import (
	"fmt"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
)

// Exceeded says that quota is used up, in the form that users of core ResourceQuota know,
// for every resource type that fell short.
func Exceeded(c *catalog.Catalog, consumer quotav1alpha1.ConsumerRef, shortages []ledger.Shortage) string {
	parts := make([]string, 0, len(shortages))
	for _, s := range shortages {
		parts = append(parts, shortage(c.Registration(s.ResourceType), consumer, s))
	}
	return fmt.Sprintf("exceeded quota: %s. Delete what %s no longer needs, or ask an administrator to grant it more.",
		strings.Join(parts, "; "), Consumer(consumer))
}

func shortage(r *catalog.Registration, consumer quotav1alpha1.ConsumerRef, s ledger.Shortage) string {
	if r == nil {
		// The registration went away since the decision: base units of the bare type it is.
		r = &catalog.Registration{ResourceType: s.ResourceType, DisplayUnit: "unit", Factor: 1}
	}
	text := fmt.Sprintf("%s quota of %s, requested: %s, used: %s, limited: %s",
		r.Subject(), Consumer(consumer), Amount(s.Requested, r), number(s.Used, r.Factor), number(s.Limit, r.Factor))
	if dimensions := s.Dimensions.Map(); len(dimensions) > 0 {
		text += fmt.Sprintf(" (for %s, available: %s)", s.Dimensions, number(s.Available, r.Factor))
	}
	return text
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
