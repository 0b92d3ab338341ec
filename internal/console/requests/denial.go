package requests

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/console/web"
)

// readDenial leads to the form, filled with the request advised by the text of a denial.
func readDenial(r *web.Request) (web.Answer, error) {
	text := r.Form("denial")
	denied, err := request.ParseDenial(text)
	if err == nil {
		err = web.CheckNamespace(denied.Namespace)
	}
	if err != nil {
		problem, status, other := problemOf(err)
		if other != nil {
			return nil, other
		}
		f := &askForm{Namespace: r.Form("namespace"), Denial: text, Problem: problem, Amounts: []askedAmount{{}}}
		return f.page(r, status)
	}
	f := &askForm{Namespace: denied.Namespace, Consumer: denied.For}
	q, err := f.quotas(r)
	if err != nil {
		return nil, err
	}
	query := url.Values{"namespace": {denied.Namespace}, "consumer": {denied.For}}
	for _, amount := range denied.Amounts {
		query.Add("type", amount.Type)
		query.Add("amount", amountText(amount, q))
	}
	if len(denied.Dimensions) > 0 {
		query.Set("dimensions", dimensionsText(denied.Dimensions))
	}
	return web.Redirect{To: "/requests/new?" + query.Encode(), Notice: "The form has what the denial asks for. Enter a reason, and send it."}, nil
}

// amountText writes an amount for a form: in the display unit if it is exact, and else in a smaller one.
func amountText(amount request.Amount, q *quotas) string {
	sign := ""
	if amount.IsIncrease {
		sign = "+"
	}
	unit := q.Unit(amount.Type)
	if unit.Name == "" {
		return sign + strconv.FormatInt(amount.Value, 10)
	}
	for _, text := range []string{unit.Amount(amount.Value), fmt.Sprintf("%d %s", amount.Value, unit.Base), fmt.Sprintf("%d bytes", amount.Value)} {
		if value, err := unit.Parse(strings.TrimSpace(text)); err == nil && value == amount.Value {
			return sign + text
		}
	}
	return sign + strings.TrimPrefix(unit.AmountUp(amount.Value), "~")
}

// dimensionsText writes dimensions in the form of an input.
func dimensionsText(dimensions map[string]string) string {
	parts := make([]string, 0, len(dimensions))
	for key, value := range dimensions {
		parts = append(parts, key+"="+value)
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
