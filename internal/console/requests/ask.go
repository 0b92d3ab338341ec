package requests

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/commandline"
	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/usage"
)

const (
	// amountsMax bounds the amounts of a request, as its API does.
	amountsMax = 20
	// stateTimeout is how long a page waits for the first state of a new request.
	stateTimeout = 5 * time.Second
)

// askForm is the form of a new request.
type askForm struct {
	Namespace, Consumer, Until, Reason, Dimensions string
	Amounts                                        []askedAmount
	// Denial is a text to fill the form from.
	Denial  string
	Problem string

	// Consumers and Types are choices. Now is the present quota of the consumer.
	Consumers, Types []string
	Now              []nowRow
	// Hint names the units of amounts.
	Hint string
	// IsCut reports whether there is more quota than the page reads.
	IsCut bool
	// MayAdd reports whether there may be more amounts.
	MayAdd bool
}

// askedAmount is a row of the form.
type askedAmount struct{ Type, Amount string }

// nowRow is the quota of a consumer for a resource type.
type nowRow struct{ Consumer, Type, Used, Limit, Percent string }

// askFormOf returns the form of a URL or, after a mistake, of the entered values.
func askFormOf(value func(string) string, types, amounts []string) *askForm {
	f := &askForm{
		Namespace: value("namespace"), Consumer: value("consumer"), Until: value("until"), Reason: value("reason"), Dimensions: value("dimensions"),
	}
	for i := range min(len(types), amountsMax) {
		row := askedAmount{Type: strings.TrimSpace(types[i])}
		if i < len(amounts) {
			row.Amount = strings.TrimSpace(amounts[i])
		}
		f.Amounts = append(f.Amounts, row)
	}
	if len(f.Amounts) == 0 {
		f.Amounts = []askedAmount{{}}
	}
	return f
}

// showAsk shows the form, filled from the URL.
func showAsk(r *web.Request) (web.Answer, error) {
	query := r.URL.Query()
	f := askFormOf(r.Query, query["type"], query["amount"])
	if f.Namespace == "" {
		f.Namespace = r.Session.Namespace
	}
	return f.page(r, http.StatusOK)
}

// page shows the form.
func (f *askForm) page(r *web.Request, status int) (web.Answer, error) {
	page := web.Page{Template: "request-new", Title: "Ask for quota", Data: f, Status: status, Command: f.command(nil)}
	f.MayAdd = len(f.Amounts) < amountsMax
	if f.Namespace == "" || web.CheckNamespace(f.Namespace) != nil {
		return page, nil
	}
	q, err := f.quotas(r)
	if err != nil {
		return nil, err
	}
	if known := q.consumers(); f.Consumer == "" && len(known) == 1 {
		f.Consumer = known[0]
	}
	f.describe(q)
	page.Command = f.command(q)
	return page, nil
}

// quotas reads the quota of the consumer in the form, or of those to choose from.
func (f *askForm) quotas(r *web.Request) (*quotas, error) {
	consumer := f.Consumer
	if _, err := consumername.Parse(consumer); err != nil {
		consumer = ""
	}
	return readQuotas(r.Context(), r.API(), f.Namespace, consumer)
}

// describe adds the choices, and the present quota of the consumer.
func (f *askForm) describe(q *quotas) {
	f.Consumers, f.Types, f.IsCut = q.consumers(), q.types(), q.IsCut
	var units []string
	for _, row := range f.Amounts {
		if unit := q.Unit(row.Type); row.Type != "" && unit.Name != "" {
			units = append(units, path.Base(row.Type)+" is in "+unit.Name)
		}
	}
	f.Hint = strings.Join(units, ", ")
	if _, err := consumername.Parse(f.Consumer); err != nil {
		return
	}
	for i := range q.Items {
		if item := &q.Items[i]; item.IsMetered && len(f.Now) < shownMax {
			f.Now = append(f.Now, nowRow{
				Consumer: consumerText(item.Usage.Consumer), Type: item.ResourceType, Used: item.UsedText, Limit: item.LimitText, Percent: item.Percent,
			})
		}
	}
}

// amounts parses the amounts, in display units.
func (f *askForm) amounts(q *quotas) ([]request.Amount, error) {
	var amounts []request.Amount
	for _, row := range f.Amounts {
		if row.Type == "" && row.Amount == "" {
			continue
		}
		if row.Type == "" || row.Amount == "" {
			return nil, &request.InputError{Text: "Each amount needs its resource type, and each resource type its amount"}
		}
		resourceType, err := typeNamed(q, row.Type)
		if err != nil {
			return nil, err
		}
		amount, err := parseAmount(resourceType, row.Amount, q.Unit(resourceType), 1)
		if err != nil {
			return nil, err
		}
		amounts = append(amounts, amount)
	}
	if len(amounts) == 0 {
		return nil, &request.InputError{Text: "Enter a resource type and its amount"}
	}
	return amounts, nil
}

// typeNamed returns the resource type that a name stands for: one of the consumer, or else another known one.
func typeNamed(q *quotas, name string) (string, error) {
	var own []string
	for i := range q.Items {
		own = append(own, q.Items[i].ResourceType)
	}
	found, err := request.TypeNamed(name, own)
	if err != nil || found != name {
		return found, err
	}
	return request.TypeNamed(name, q.types())
}

// parseAmount parses an amount in display units, with a plus for an increase. Without a known unit it is in base units.
func parseAmount(resourceType, text string, unit usage.Unit, minimum int64) (request.Amount, error) {
	if unit.Name == "" {
		parsed, err := request.ParseAmounts([]string{resourceType + "=" + text}, minimum)
		if err != nil {
			return request.Amount{}, err
		}
		return parsed[0], nil
	}
	digits, isIncrease := strings.CutPrefix(text, "+")
	return request.Amount{Type: resourceType, IsIncrease: isIncrease, Text: strings.TrimSpace(digits)}.InBaseUnits(unit, minimum)
}

// options returns the request in the form.
func (f *askForm) options(q *quotas) (request.Options, error) {
	o := request.Options{Namespace: f.Namespace, For: f.Consumer, Reason: f.Reason}
	var err error
	switch {
	case f.Namespace == "":
		return o, &request.InputError{Text: "Enter the namespace that shows the quota of the consumer"}
	case f.Consumer == "":
		return o, &request.InputError{Text: "Enter the consumer as KIND/NAME, such as Organization/acme"}
	case f.Reason == "":
		return o, &request.InputError{Text: "Enter a reason: the approvers read it"}
	}
	if o.Amounts, err = f.amounts(q); err != nil {
		return o, err
	}
	if o.Dimensions, err = request.ParseDimensions(splitDimensions(f.Dimensions)); err != nil {
		return o, err
	}
	if o.Until, err = parseUntil(f.Until); err != nil {
		return o, err
	}
	return o, o.Check()
}

// splitDimensions returns the KEY=VALUE of a field.
func splitDimensions(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
}

// parseUntil parses the end of quota. An empty text is no end.
func parseUntil(text string) (*metav1.Time, error) {
	until, err := request.ParseEnd(text)
	if err != nil || until.IsZero() {
		return nil, err
	}
	return new(metav1.NewTime(until)), nil
}

// command is the command that makes the request, with placeholders for empty fields. Without quotas the units are
// unknown.
func (f *askForm) command(q *quotas) string {
	words := []string{"bursar", "request"}
	amounts, err := []request.Amount(nil), error(nil)
	if q != nil {
		amounts, err = f.amounts(q)
	}
	if err != nil || len(amounts) == 0 {
		words = append(words, "TYPE=AMOUNT")
	}
	for _, amount := range amounts {
		words = append(words, amount.String())
	}
	words = append(words, "--for", or(f.Consumer, "KIND/NAME"), "-n", or(f.Namespace, "NAMESPACE"), "--reason", or(f.Reason, "TEXT"))
	for _, dimension := range splitDimensions(f.Dimensions) {
		words = append(words, "--dimension", dimension)
	}
	if f.Until != "" {
		words = append(words, "--until", f.Until)
	}
	return commandline.Join(words...)
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// ask makes a request, or adds a row to the form.
func ask(r *web.Request) (web.Answer, error) {
	f := askFormOf(r.Form, r.PostForm["type"], r.PostForm["amount"])
	if r.Form("add") != "" {
		f.Amounts = append(f.Amounts[:min(len(f.Amounts), amountsMax-1)], askedAmount{})
		return f.page(r, http.StatusOK)
	}
	created, err := f.create(r)
	if err != nil {
		text, status, other := problemOf(err)
		if other != nil {
			return nil, other
		}
		f.Problem = text
		return f.page(r, status)
	}
	key := client.ObjectKeyFromObject(created)
	to := web.Redirect{To: requestPath(key), Notice: fmt.Sprintf("You asked for quota: QuotaRequest %s.", key)}
	_, _ = request.Wait(r.Context(), r.API(), key, false, stateTimeout) // without a state, the page renews itself
	return to, nil
}

// create makes the request in the form.
func (f *askForm) create(r *web.Request) (*quotav1alpha1.QuotaRequest, error) {
	q := &quotas{Overview: &overview.Overview{}}
	if f.Namespace != "" {
		err := web.CheckNamespace(f.Namespace)
		if err == nil {
			q, err = f.quotas(r)
		}
		if err != nil {
			return nil, err
		}
	}
	o, err := f.options(q)
	if err != nil {
		return nil, err
	}
	return request.Create(r.Context(), r.API(), o)
}
