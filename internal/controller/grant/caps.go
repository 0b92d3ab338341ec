package grant

import (
	"fmt"
	"maps"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
)

// caps compares the sums of a consumer's grants with the caps of the registrations. Only the amounts of a grant beyond
// its entry in the ledger must fit: the entry goes on counting. A nil caps has room for everything.
type caps struct {
	consumer      quotav1alpha1.ConsumerRef
	registrations message.Registrations
	totals        *Totals
	// held are the entries of the ledger by UID.
	held map[string]ledger.Grant
	// given are the sums of each grant by UID: after its decision, its later sums; before, at most its entry in the
	// ledger.
	given map[string]sums
}

func (r *Reconciler) capsOf(consumer quotav1alpha1.ConsumerRef, held []ledger.Grant) *caps {
	c := &caps{
		consumer: consumer, registrations: r.Catalog, totals: r.Totals,
		held: make(map[string]ledger.Grant, len(held)), given: make(map[string]sums, len(held)),
	}
	for _, entry := range held {
		c.held[entry.UID] = entry
	}
	r.Totals.hold(consumer, sumsOf(held...))
	return c
}

// holds reports whether the ledger has an entry of a grant.
func (c *caps) holds(grant *quotav1alpha1.ResourceGrant) bool {
	if c == nil {
		return false
	}
	_, ok := c.held[string(grant.UID)]
	return ok
}

// expect counts an undecided grant with its entry in the ledger, or with its own sums if they are not larger.
func (c *caps) expect(entry ledger.Grant) {
	if c == nil {
		return
	}
	given, asked := sumsOf(c.held[entry.UID]), sumsOf(entry)
	if len(grown(given, asked)) == 0 {
		given = asked
	}
	c.given[entry.UID] = given
}

// decide counts a grant with its later sums.
func (c *caps) decide(entry ledger.Grant) {
	if c != nil {
		c.given[entry.UID] = sumsOf(entry)
	}
}

// admit takes the room for a grant, or returns the cap in its way.
func (c *caps) admit(entry ledger.Grant) *capReached {
	if c == nil {
		return nil
	}
	asked := sumsOf(entry)
	var wants []want
	var registrations []*catalog.Registration
	for _, resourceType := range grown(sumsOf(c.held[entry.UID]), asked) {
		given := c.givenByOthers(entry.UID, resourceType)
		r := c.registrations.Registration(resourceType)
		w := want{resourceType: resourceType, sum: given.AddUpTo(asked[resourceType])}
		if r != nil {
			if perConsumer := ledger.Amount(r.MaxPerConsumer); perConsumer > 0 && w.sum > perConsumer {
				return &capReached{registration: r, consumer: message.Consumer(c.consumer), most: perConsumer, given: given, asked: asked[resourceType]}
			}
			w.maxTotal = ledger.Amount(r.MaxTotal)
		}
		wants, registrations = append(wants, w), append(registrations, r)
	}
	short := c.totals.take(c.consumer, wants)
	if short == noneShort {
		return nil
	}
	w := wants[short]
	return &capReached{
		registration: registrations[short], most: w.maxTotal, given: c.givenByOthers(entry.UID, w.resourceType), asked: asked[w.resourceType], sum: w.sum,
	}
}

// givenByOthers returns the amount of a resource type from the consumer's other grants.
func (c *caps) givenByOthers(uid, resourceType string) ledger.Amount {
	var sum ledger.Amount
	for other, given := range c.given {
		if other != uid {
			sum = sum.AddUpTo(given[resourceType])
		}
	}
	return sum
}

// grown returns the resource types with more in the later sums, sorted.
func grown(before, after sums) []string {
	var types []string
	for _, resourceType := range slices.Sorted(maps.Keys(after)) {
		if after[resourceType] > before[resourceType] {
			types = append(types, resourceType)
		}
	}
	return types
}

// capReached is a cap that a grant would exceed.
type capReached struct {
	registration *catalog.Registration
	// consumer is empty for the cap on all consumers.
	consumer string
	// most is the cap, given the sum of the consumer's other grants, and asked the amount of this grant.
	most, given, asked ledger.Amount
	// sum is the amount the consumer waits to have. 0 for the cap per consumer: its own grants are in the way.
	sum ledger.Amount
	// isHeld is true if the grant goes on giving its amounts from before its change.
	isHeld bool
}

// message names the cap, the requested amount, and the next step. The quota of other consumers is not for the readers
// of a grant, so the cap on all consumers comes without the remaining room.
func (c *capReached) message() string {
	amount := func(a ledger.Amount) string { return message.Amount(a, c.registration) }
	name := "maxTotal"
	text := fmt.Sprintf("the grant asks for %s of %s, and ", amount(c.asked), c.registration.ResourceType)
	if c.consumer == "" {
		text += fmt.Sprintf("all grants together may give %s: maxTotal of ResourceRegistration %s", amount(c.most), c.registration.Name)
	} else {
		name = "maxPerConsumer"
		text += fmt.Sprintf("the other grants of %s give %s already: %s of ResourceRegistration %s is %s",
			c.consumer, amount(c.given), name, c.registration.Name, amount(c.most))
	}
	if c.isHeld {
		text += ". The grant keeps its amounts from before its change"
	}
	if left, _ := c.most.Sub(c.given); left > 0 && c.consumer != "" {
		text += fmt.Sprintf(". Ask for at most %s, give less in another grant, or raise %s", amount(left), name)
	} else {
		text += fmt.Sprintf(". Give less in another grant, or raise %s", name)
	}
	return text + "; the grant counts as soon as there is room"
}
