package tenant

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/usage/holders"
)

// rowsPerPage is how many holders a page shows, and pagesMax the number of pages.
const rowsPerPage, pagesMax = 50, claimsMax / 50

// usesPage shows the users of quota: objects that count, and claims.
type usesPage struct {
	scope
	Forbidden string
	Rows      []row
	// First, Last and Total number the rows of the page among all.
	First, Last, Total int
	// ReadMax is the number of claims read if there are more, or 0.
	ReadMax int
	// Notes are sentences about what the page lacks.
	Notes []string
	// Previous and Next are the pages beside this one, or empty.
	Previous, Next string
}

func showUses(r *web.Request) (web.Answer, error) {
	s, err := scopeOf(r, "/uses")
	if err != nil {
		return nil, err
	}
	s.WithConsumer, s.WithType = true, true
	number, err := pageNumber(r.Query("page"))
	if err != nil {
		return nil, err
	}
	page := &usesPage{scope: s}
	answer := web.Page{
		Template: "uses", Title: "What uses it", Data: page,
		Command: command("bursar usage --claims", "-n", s.Namespace, "--consumer", s.Consumer, "--type", s.Type),
	}
	if s.MustChoose {
		return answer, nil
	}
	quotas, err := s.quotas(r)
	if err != nil {
		return nil, err
	}
	counted, err := s.readCounted(r, quotas, number*rowsPerPage)
	if err != nil {
		return nil, err
	}
	found, err := s.readClaims(r.Context(), r.API(), counted.NeedsViews())
	if err != nil {
		page.Forbidden, err = forbidden(err, "what uses quota here")
		return answer, err
	}
	page.show(found, counted, number, quotas)
	return answer, nil
}

// pageNumber parses the number of a page. The first one is 1.
func pageNumber(text string) (int, error) {
	if text == "" {
		return 1, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > pagesMax {
		return 0, web.Invalid("There is no page " + text + ". Begin with the first one.")
	}
	return number, nil
}

// readCounted asks which objects count in the scope. It reads as many as the pages up to this one may show.
func (s *scope) readCounted(r *web.Request, quotas *overview.Overview, most int) (*holders.Counted, error) {
	asker := &holders.Asker{API: r.API(), Namespace: cmp.Or(s.Namespace, namespaceOfNone)}
	asked := holders.Question{OrNamespace: s.Namespace, ResourceType: s.fullType(quotas, nil), Max: most}
	if s.Type != "" && asked.ResourceType == "" {
		asked.Max = claimsMax // the page selects among all
	}
	var questions []holders.Question
	for _, consumer := range s.consumers(quotas) {
		asked.Consumer = &consumer
		questions = append(questions, asked)
	}
	if len(questions) == 0 {
		asked.Namespace = s.Namespace
		questions = append(questions, asked)
	}

	all := &holders.Counted{}
	for _, question := range questions {
		counted, err := asker.Ask(r.Context(), question)
		if err != nil {
			return nil, err
		}
		all.Add(counted)
	}
	return all, nil
}

// fullType returns the only resource type that the scope may mean, in the quota or among holders, or "".
func (s *scope) fullType(quotas *overview.Overview, all []holders.Holder) string {
	if strings.Contains(s.Type, "/") || s.Type == "" {
		return s.Type
	}
	types := map[string]bool{}
	for i := range quotas.Items {
		types[quotas.Items[i].ResourceType] = true
	}
	for i := range all {
		for _, request := range all[i].Requests {
			types[request.ResourceType] = true
		}
	}
	maps.DeleteFunc(types, func(of string, _ bool) bool { return !s.isType(of) })
	if len(types) != 1 {
		return ""
	}
	return slices.Collect(maps.Keys(types))[0]
}

// consumers returns the consumers that the scope may mean: those with quota, and the one with exactly this name.
// Without a name there are none.
func (s *scope) consumers(quotas *overview.Overview) []quotav1alpha1.ConsumerRef {
	name, err := consumername.Parse(s.Consumer)
	if err != nil {
		return nil // the scope has been checked, so it names none
	}
	var all []quotav1alpha1.ConsumerRef
	if exact, is := name.Exact(); is {
		all = append(all, exact)
	}
	for i := range quotas.Items {
		if consumer := quotas.Items[i].Usage.Consumer; name.Matches(consumer) && !slices.Contains(all, consumer) {
			all = append(all, consumer)
		}
	}
	return all
}

// show shows one page of holders: the largest first if all amounts are of one resource type, and otherwise the latest
// first.
func (p *usesPage) show(found *claims, counted *holders.Counted, number int, quotas *overview.Overview) {
	all := slices.DeleteFunc(holders.Join(found.all, counted), func(h holders.Holder) bool { return !p.selects(&h) })
	holders.Sort(all, p.fullType(quotas, all))

	p.Notes = counted.Notes()
	p.noteHidden(counted.Hidden, quotas)
	p.Total = len(all) + int(counted.More)
	if isAnyType := p.Type != "" && p.fullType(quotas, nil) == ""; found.isCut || isAnyType && counted.More > 0 {
		p.Total, p.ReadMax = len(all), claimsMax
	}
	from := min((number-1)*rowsPerPage, len(all))
	until := min(from+rowsPerPage, len(all))
	p.First, p.Last = from+1, until
	for i := range all[from:until] {
		p.Rows = append(p.Rows, p.rowOf(&all[from+i], quotas))
	}
	if number > 1 {
		p.Previous = p.URL("/uses", "page", strconv.Itoa(number-1))
	}
	if until < p.Total && number < pagesMax {
		p.Next = p.URL("/uses", "page", strconv.Itoa(number+1))
	}
}

// selects reports whether a holder is for the consumer and the resource type of the scope.
func (s *scope) selects(h *holders.Holder) bool {
	if name, err := consumername.Parse(s.Consumer); err == nil && !name.Matches(h.Consumer) {
		return false
	}
	return slices.ContainsFunc(h.Requests, func(request quotav1alpha1.ResourceRequest) bool {
		return s.isType(request.ResourceType) && request.Amount > 0
	})
}

// noteHidden sums up what the person may not see.
func (p *usesPage) noteHidden(hidden *quotav1alpha1.HiddenUsage, quotas *overview.Overview) {
	if hidden == nil {
		return
	}
	var amounts []string
	for _, a := range hidden.Amounts {
		if p.isType(a.ResourceType) {
			amounts = append(amounts, quotas.Unit(a.ResourceType).Amount(a.Amount)+" of "+quotas.Describe(a.ResourceType).Title)
		}
	}
	if len(amounts) > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%s %s.", message.Count(hidden.Objects, "object that you may not see uses", "objects that you may not see use"), strings.Join(amounts, ", ")))
	}
}
