package tenant

import (
	"cmp"
	"errors"
	"html/template"
	"slices"
	"time"

	"github.com/bursar/bursar/internal/cli/history"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/journal/overapi"
)

const (
	// sinceDefault is the start of a history.
	sinceDefault = "7d"
	// historyEntriesMax bounds the entries for a page.
	historyEntriesMax = 10_000
	// accountsMax bounds the resource types of a page, limitChangesMax the changes of each limit, and changesMax those of
	// use. A page about one resource type shows changesOfOneMax.
	accountsMax, limitChangesMax, changesMax, changesOfOneMax = 30, 50, 10, 200
	// namespaceOfNone is the namespace in which a page asks for the journal of a consumer without quota.
	namespaceOfNone = "default"
)

// historyPage shows how limits and use have changed.
type historyPage struct {
	scope
	Since string
	// Times are those to choose from.
	Times []string
	// Choices are the consumers to choose from, if the page is about none.
	Choices []choice
	// Problem explains why there is no history.
	Problem  string
	Accounts []pastAccount
	Gaps     []string
	// IsRead reports whether the page has read the journal.
	IsRead, IsCut bool
}

// choice is a link to the history of a consumer.
type choice struct{ Consumer, URL string }

// pastAccount is the history of a resource type.
type pastAccount struct {
	overview.Description
	ResourceType, Consumer, URL string
	Chart                       template.HTML
	Used, Limit, Peak           string
	From, Until                 time.Time
	LimitChanges                []limitChange
	Changes                     []useChange
	// LimitsOmitted and ChangesOmitted count the omitted earlier changes.
	LimitsOmitted, ChangesOmitted int
}

// limitChange is a change of a limit.
type limitChange struct {
	Time                      time.Time
	Verb, From, To, Grant, By string
	// Since is the start of the gap in which the limit changed.
	Since *time.Time
}

// useChange is a change of use.
type useChange struct {
	Time                                   time.Time
	Event, Object, Change, Used, Limit, By string
}

func showHistory(r *web.Request) (web.Answer, error) {
	s, err := scopeOf(r, "/history")
	if err != nil {
		return nil, err
	}
	s.WithConsumer, s.WithType = true, true
	page := &historyPage{scope: s, Since: cmp.Or(r.Query("since"), sinceDefault), Times: []string{"1d", "7d", "30d", "90d"}}
	if !slices.Contains(page.Times, page.Since) {
		page.Times = append(page.Times, page.Since)
	}
	now := time.Now()
	since, err := history.ParseMoment(page.Since, now)
	if err != nil {
		return nil, web.Invalid("The time " + err.Error() + ".")
	}
	if !since.Before(now) {
		return nil, web.Invalid("The time " + page.Since + " is not in the past.")
	}
	answer := web.Page{
		Template: "history", Title: "History", Data: page,
		Command: command("bursar history", "-n", s.Namespace, "--consumer", s.Consumer, "--resource-type", s.Type, "--since", page.Since),
	}
	if s.MustChoose {
		return answer, nil
	}
	found, err := s.quotas(r) // a reader of journals need not see the quota
	if err != nil {
		return nil, err
	}
	consumer, namespace := page.choose(found)
	if consumer == "" {
		return answer, nil
	}
	selection := history.Selection{Consumer: consumer, ResourceType: s.Type, Since: since, Now: now}
	return answer, page.read(r, selection, namespace, found)
}

// choose returns the consumer of the page, and the namespace to ask for its journal. The consumer is empty if there are
// several.
func (p *historyPage) choose(found *overview.Overview) (consumer, namespace string) {
	consumers := consumersOf(found.Items)
	switch {
	case len(consumers) == 1:
		return overview.ReferenceTo(consumers[0]), found.Items[0].Namespace
	case len(consumers) == 0:
		return p.Consumer, cmp.Or(p.Namespace, namespaceOfNone)
	}
	p.IsCut = found.IsCut
	for _, each := range consumers {
		reference := overview.ReferenceTo(each)
		url := web.Path("/history", "namespace", p.Namespace, "consumer", reference, "type", p.Type, "since", p.Since)
		p.Choices = append(p.Choices, choice{reference, url})
	}
	slices.SortFunc(p.Choices, func(a, b choice) int { return cmp.Compare(a.Consumer, b.Consumer) })
	return "", ""
}

// read reads the journal of a consumer.
func (p *historyPage) read(r *web.Request, selection history.Selection, namespace string, found *overview.Overview) error {
	selection.IsLenient = len(found.Items) > 0 // the consumer exists
	source := history.Bounded{Source: &overapi.Source{API: r.API(), Namespace: namespace}, Max: historyEntriesMax}
	report, err := history.Read(r.Context(), source, history.Options{Selection: selection, ChangesMax: changesOfOneMax})
	if err != nil {
		if errors.Is(err, history.ErrTooLong) {
			err = history.ErrTooLong
		}
		p.Problem, err = unread(err)
		return err
	}
	p.IsRead = true
	for i := range report.Gaps {
		p.Gaps = append(p.Gaps, report.Gaps[i].Text())
	}
	p.IsCut = len(report.Items) > accountsMax
	shown := report.Items[:min(len(report.Items), accountsMax)]
	for i := range shown {
		account := &shown[i]
		p.Accounts = append(p.Accounts, p.accountOf(account, report.Gaps, found, len(shown) == 1))
	}
	return nil
}

// accountOf returns the history of an account for people.
func (p *historyPage) accountOf(account *history.Account, gaps []history.Gap, found *overview.Overview, isOne bool) pastAccount {
	unit, reference := found.Unit(account.ResourceType), overview.ReferenceTo(account.ConsumerRef)
	a := pastAccount{
		Description: found.Describe(account.ResourceType), ResourceType: account.ResourceType,
		Consumer: account.ConsumerRef.Kind + "/" + account.ConsumerRef.Name,
		URL:      web.Path("/history", "namespace", p.Namespace, "consumer", reference, "type", account.ResourceType, "since", p.Since),
		Used:     unit.Amount(account.Used), Limit: unit.Amount(account.Limit), Peak: unit.Amount(account.PeakUsed),
		From: account.From, Until: account.Until,
	}
	a.Chart = chartOf(account, gaps, a.Title+": at most "+a.Peak+" used, at the end "+a.Used+" of "+a.Limit)
	limits := account.LimitChanges[max(0, len(account.LimitChanges)-limitChangesMax):]
	a.LimitsOmitted = len(account.LimitChanges) - len(limits)
	for i := range limits {
		c := &limits[i]
		verb := "raised"
		if c.To < c.From {
			verb = "lowered"
		}
		a.LimitChanges = append(a.LimitChanges, limitChange{
			Time: c.Time, Verb: verb, From: unit.Amount(c.From), To: unit.Amount(c.To), Grant: c.Grant, By: c.Actor, Since: c.Since,
		})
	}
	changes := account.Changes
	if !isOne {
		changes = changes[max(0, len(changes)-changesMax):]
	}
	a.ChangesOmitted = account.ChangesOmitted + len(account.Changes) - len(changes)
	for i := range changes {
		c := &changes[i]
		a.Changes = append(a.Changes, useChange{
			Time: c.Time, Event: string(c.Kind), Object: c.ObjectText(), Change: history.Signed(unit, c.Change),
			Used: unit.Amount(c.Used), Limit: unit.Amount(c.Limit), By: c.Actor,
		})
	}
	slices.Reverse(a.LimitChanges)
	slices.Reverse(a.Changes) // the latest first
	return a
}
