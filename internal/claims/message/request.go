package message

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
)

// requestedMax bounds the resource types of a request in a message. It is the maxItems of spec.requests.
const requestedMax = 20

// plain matches words that a shell leaves as they are.
var plain = regexp.MustCompile(`^[A-Za-z0-9._/:@%+=-]+$`)

// Request returns the command to ask for the quota that a consumer lacks, or "" if no request would help.
func Request(consumer quotav1alpha1.ConsumerRef, namespace string, shortages []ledger.Shortage) string {
	return Of(consumer, shortages).request(namespace)
}

// registered returns the denial without the shortfalls of removed resource types.
func (d *Denial) registered(c *catalog.Catalog) *Denial {
	isGone := func(s Shortfall) bool { return c.Registration(s.ResourceType) == nil }
	return &Denial{Consumer: d.Consumer, Shortfalls: slices.DeleteFunc(slices.Clone(d.Shortfalls), isGone)}
}

// request returns the command to ask for the missing quota, or "" if no request would help. A request has dimensions
// only if all shortfalls have the same. Otherwise it leaves out the shortfalls with dimensions.
func (d *Denial) request(namespace string) string {
	var dimensions ledger.Dimensions
	if len(d.Shortfalls) > 0 {
		dimensions = d.Shortfalls[0].Dimensions
	}
	if slices.ContainsFunc(d.Shortfalls, func(s Shortfall) bool { return s.Dimensions != dimensions }) {
		dimensions = ledger.Dimensions{}
	}
	var amounts []string
	isGranted := false
	for i := range d.Shortfalls {
		s := &d.Shortfalls[i]
		isGranted = isGranted || s.Limit > 0 || s.Used > 0
		if lacking, ok := s.lacking(); ok && s.Dimensions == dimensions {
			amounts = append(amounts, fmt.Sprintf("%s=+%d", s.ResourceType, lacking))
		}
	}
	if len(amounts) == 0 || len(amounts) > requestedMax {
		return ""
	}
	words := append(amounts, "--for", reference(d.Consumer, isGranted), "-n", namespace)
	of := dimensions.Map()
	for _, key := range slices.Sorted(maps.Keys(of)) {
		words = append(words, "--dimension", key+"="+of[key])
	}
	if slices.ContainsFunc(words, func(word string) bool { return !plain.MatchString(word) }) {
		return ""
	}
	return "bursar request " + strings.Join(words, " ") + ` --reason "..."`
}

// lacking returns the increase with which the request fits. A consumer above its limit needs the excess, too. It is
// not ok if the increase is too large to count.
func (s *Shortfall) lacking() (increase ledger.Amount, ok bool) {
	total, ok := s.Used.Add(s.Requested)
	if !ok {
		return 0, false
	}
	return max(s.Requested-s.Available, total-s.Limit, 1), true
}

// reference names a consumer for bursar request. A kind is known by itself only where quota of the consumer is shown.
func reference(consumer quotav1alpha1.ConsumerRef, isShown bool) string {
	if isShown {
		return consumer.Kind + "/" + consumer.Name
	}
	if consumer.Namespace != "" {
		return fmt.Sprintf("%s.%s/%s/%s", consumer.Kind, consumer.APIGroup, consumer.Namespace, consumer.Name)
	}
	return fmt.Sprintf("%s.%s/%s", consumer.Kind, consumer.APIGroup, consumer.Name)
}
