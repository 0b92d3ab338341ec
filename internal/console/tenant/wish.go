package tenant

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/usage"
)

// wish is a request for more, prepared by a link.
type wish struct {
	namespace, consumer, reason string
	amounts                     []wished
	dimensions                  map[string]string
}

// wished is how much more of a resource type a wish is for.
type wished struct{ resourceType, amount string }

// URL returns the page with a form for the wish, or "" without amounts.
func (w *wish) URL() string {
	if len(w.amounts) == 0 {
		return ""
	}
	query := url.Values{"namespace": {w.namespace}, "consumer": {w.consumer}, "reason": {w.reason}}
	for _, each := range w.amounts {
		query.Add("type", each.resourceType)
		query.Add("amount", each.amount)
	}
	if len(w.dimensions) > 0 {
		var pairs []string
		for key, value := range w.dimensions {
			pairs = append(pairs, key+"="+value)
		}
		slices.Sort(pairs)
		query.Set("dimensions", strings.Join(pairs, ", "))
	}
	return web.Path("/requests/new") + "?" + query.Encode()
}

// increase writes the missing amount: in display units, rounded up, and otherwise in base units.
func increase(unit usage.Unit, amount int64) string {
	text := unit.AmountUp(amount)
	if strings.HasPrefix(text, "~") && unit.Base != "" {
		text = strconv.FormatInt(amount, 10) + " " + unit.Base
	}
	return "+" + strings.TrimPrefix(text, "~")
}
