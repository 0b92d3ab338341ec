package administrator

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"

	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/commandline"
	"github.com/bursar/bursar/internal/console/chart"
	"github.com/bursar/bursar/internal/console/fleet"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/web"
)

// fleetView is the page of all consumers.
type fleetView struct {
	fleet.Result
	Query fleet.Query
	// IsReading is set during the read of all consumers' quota, and Failure is the reason if that fails.
	IsReading bool
	Failure   string
	Rows      []fleetRow
	States    []choice
	Orders    []choice
	// IsFiltered reports whether the query excludes rows.
	IsFiltered bool
	// NearPercent and IdlePercent are the bounds of the states, in percent of the limit.
	NearPercent, IdlePercent int
	// Previous and Next are the URLs of the pages beside this one, or empty.
	Previous, Next string
}

// choice is an option of a form, or a link.
type choice struct {
	Value, Title, URL string
	Count             int
	IsChosen          bool
}

// fleetRow is a row of the table.
type fleetRow struct {
	fleet.Found
	URL string
	// Consumer names the consumer, and In its namespace.
	Consumer, In string
	Bar          template.HTML
	// Words are the meanings of the bar's colour.
	Words []string
}

var (
	stateTitles = map[fleet.State]string{
		fleet.Over: "Over limit", fleet.Near: "Near limit", fleet.Idle: "Idle grants", fleet.Waiting: "Waiting for more",
	}
	orderTitles = map[fleet.Order]string{
		fleet.ByUse: "Most used part first", fleet.ByLeastUse: "Least used part first",
		fleet.ByConsumer: "By consumer", fleet.ByType: "By resource type",
	}
)

func (a Area) fleet(r *web.Request) (web.Answer, error) {
	copied, isRead := a.Copies.For(r)
	if copied == nil {
		return closed("Fleet", "You may not list and watch the quota of all consumers (effectiveresourcegrants in all namespaces). "+
			"Your own quota is on the page My quota. Ask an administrator of the platform for the role bursar-quota-manager if you "+
			"manage all consumers."), nil
	}
	q := queryOf(r)
	view := &fleetView{
		Query: q, IsReading: !isRead, IsFiltered: q.Text != "" || q.ResourceType != "" || q.State != "",
		NearPercent: fleet.NearPercent, IdlePercent: fleet.IdlePercent,
	}
	if isRead {
		view.Result = copied.Find(q)
	}
	if err := copied.Failure(); err != nil {
		view.Failure = "The API server does not answer, so this page may be out of date; the console tries again: " + err.Error()
	}
	view.complete()
	return web.Page{Template: "administrator-fleet", Title: "Fleet", Data: view, Command: commandFor(q), Live: []web.Watch{
		{Resource: "effectiveresourcegrants"}, {Resource: "quotarequests"},
	}}, nil
}

// queryOf reads the query of a URL. Unknown values select everything, so old links still work.
func queryOf(r *web.Request) fleet.Query {
	q := fleet.Query{
		Text: r.Query("q"), ResourceType: r.Query("type"), State: fleet.State(r.Query("state")), Order: fleet.Order(r.Query("sort")),
	}
	if !slices.Contains(fleet.States, q.State) {
		q.State = ""
	}
	if !slices.Contains(fleet.Orders, q.Order) {
		q.Order = fleet.ByUse
	}
	q.Page, _ = strconv.Atoi(r.Query("page")) // another text is the first page
	return q
}

func urlOf(q fleet.Query) string {
	page := ""
	if q.Page > 1 {
		page = strconv.Itoa(q.Page)
	}
	return web.Path("/fleet", "q", q.Text, "type", q.ResourceType, "state", string(q.State), "sort", string(q.Order), "page", page)
}

// complete adds links and rows.
func (v *fleetView) complete() {
	for _, state := range append([]fleet.State{""}, fleet.States...) {
		if state == fleet.Waiting && !v.HasRequests {
			continue
		}
		to := v.Query
		to.State, to.Page = state, 0
		each := choice{Value: string(state), Title: stateTitles[state], URL: urlOf(to), Count: v.Counts[state], IsChosen: state == v.Query.State}
		if state == "" {
			each.Title = "All"
		}
		v.States = append(v.States, each)
	}
	for _, order := range fleet.Orders {
		v.Orders = append(v.Orders, choice{Value: string(order), Title: orderTitles[order], IsChosen: order == v.Query.Order})
	}
	to := v.Query
	if to.Page = v.Page - 1; to.Page > 0 {
		v.Previous = urlOf(to)
	}
	if to.Page = v.Page + 1; to.Page <= v.Pages {
		v.Next = urlOf(to)
	}
	for _, found := range v.Result.Rows {
		v.Rows = append(v.Rows, rowOf(found))
	}
}

func rowOf(found fleet.Found) fleetRow {
	consumer := found.Usage.Consumer
	row := fleetRow{
		Found: found, Consumer: consumer.Kind + "/" + consumer.Name, In: consumer.Namespace, URL: consumerURL(overview.ReferenceTo(consumer)),
		Bar: barOf(found.ResourceType, found.Usage, found.UsedText, found.LimitText),
	}
	if word := chart.Word(found.Level()); word != "" {
		row.Words = append(row.Words, word)
	}
	if found.IsIdle() {
		row.Words = append(row.Words, "idle")
	}
	if !found.IsMetered {
		row.Words = append(row.Words, "not metered")
	}
	if found.Requests > 0 {
		row.Words = append(row.Words, message.Count(found.Requests, "open request", "open requests"))
	}
	return row
}

func consumerURL(reference string) string { return web.Path("/fleet/consumer", "name", reference) }

// commandFor returns a command for the rows up to the page, or nothing if no command has these filters.
func commandFor(q fleet.Query) string {
	if q.Text != "" || q.Order == fleet.ByLeastUse || q.State != "" && q.State != fleet.Near {
		return ""
	}
	words := []string{"bursar", "usage", "--all-namespaces"}
	if q.ResourceType != "" {
		words = append(words, "--type", q.ResourceType)
	}
	if q.State == fleet.Near {
		words = append(words, fmt.Sprintf("--near=%d", fleet.NearPercent))
	}
	switch q.Order {
	case fleet.ByConsumer:
		words = append(words, "--sort-by", "consumer")
	case fleet.ByType:
		words = append(words, "--sort-by", "type")
	}
	return commandline.Join(append(words, "--limit", strconv.Itoa(fleet.PageSize*max(q.Page, 1)))...)
}
