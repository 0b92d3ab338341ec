package tenant

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"time"

	"github.com/bursar/bursar/internal/cli/history"
	"github.com/bursar/bursar/internal/console/chart"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/journal/overapi"
)

const (
	day = 24 * time.Hour
	// trendTimeout bounds the reading of the journal for trends.
	trendTimeout = 10 * time.Second
	// trendEntriesMax bounds the entries of a consumer for a trend.
	trendEntriesMax = 3000
	// chartColumns is how many values a chart has.
	chartColumns = 120
)

// trendPage shows how the use of each resource type has developed. The page of quota takes the trends from it.
type trendPage struct {
	scope
	Forbidden string
	Trends    []trend
	// QuotaURL is the page of quota.
	QuotaURL string
}

// trend is the trend of one resource type of one consumer.
type trend struct {
	overview.Item
	ID string
	// Chart is empty without a change in the window.
	Chart template.HTML
	// Text explains the chart, or its absence.
	Text string
}

func showTrends(r *web.Request) (web.Answer, error) {
	s, err := scopeOf(r, "/quota/trend")
	if err != nil {
		return nil, err
	}
	s.WithConsumer = true
	page := &trendPage{scope: s, QuotaURL: s.URL("/quota")}
	answer := web.Page{
		Template: "trend", Title: "Trend of the last 7 days", Data: page,
		Command: command("bursar history --since 7d", "-n", s.Namespace, "--consumer", s.Consumer),
	}
	if s.MustChoose {
		return answer, nil
	}
	found, err := overview.Read(r.Context(), r.API(), overview.Query{Namespace: s.Namespace, Consumer: s.Consumer, Max: itemsMax})
	if err != nil {
		page.Forbidden, err = forbidden(err, "the quota that is shown here")
		return answer, err
	}
	if len(consumersOf(found.Items)) > trendsMax {
		page.Forbidden = fmt.Sprintf("There are more than %d consumers here. Choose one to see its trends.", trendsMax)
		return answer, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), trendTimeout)
	defer cancel()
	page.Trends, err = trendsOf(ctx, r, found.Items, time.Now())
	return answer, err
}

// window is the time of a trend.
type window struct {
	length time.Duration
	name   string
}

// windows are those of trends: a shorter one is for consumers with too many changes.
var windows = []window{{7 * day, "the last 7 days"}, {day, "the last day"}, {time.Hour, "the last hour"}}

// past is the history of a consumer, from the journal.
type past struct {
	report *history.Report
	window window
	// problem is why there is no report, or empty.
	problem string
}

// pastOf reads the journal of an item's consumer.
func pastOf(ctx context.Context, r *web.Request, item *overview.Item, now time.Time) (past, error) {
	source := history.Bounded{Source: &overapi.Source{API: r.API(), Namespace: item.Namespace}, Max: trendEntriesMax}
	p := past{}
	var err error
	for _, p.window = range windows {
		p.report, err = history.Read(ctx, source, history.Options{ChangesMax: 1, Selection: history.Selection{
			Consumer: item.Reference, Since: now.Add(-p.window.length), Now: now, IsLenient: true,
		}})
		if !errors.Is(err, history.ErrTooLong) {
			break
		}
	}
	p.problem, err = unread(err)
	return p, err
}

// trendsOf reads the trends of items.
func trendsOf(ctx context.Context, r *web.Request, items []overview.Item, now time.Time) ([]trend, error) {
	known := map[string]past{}
	trends := make([]trend, 0, len(items))
	for _, item := range items {
		p, isRead := known[item.Reference]
		if !isRead {
			var err error
			if p, err = pastOf(ctx, r, &item, now); err != nil {
				return nil, err
			}
			known[item.Reference] = p
		}
		trends = append(trends, trendOf(item, p))
	}
	return trends, nil
}

// trendOf returns the trend of an item.
func trendOf(item overview.Item, p past) trend {
	t := trend{Item: item, ID: trendID(&item.Usage), Text: "No change in " + p.window.name + "."}
	if p.problem != "" {
		t.Text = "No trend: " + p.problem
		return t
	}
	for i := range p.report.Items {
		account := &p.report.Items[i]
		if account.ConsumerRef != item.Usage.Consumer || account.ResourceType != item.ResourceType {
			continue
		}
		t.Chart = chartOf(account, p.report.Gaps, fmt.Sprintf("%s in %s: at most %s used, now %s of %s",
			item.Title, p.window.name, item.Unit.Amount(account.PeakUsed), item.UsedText, item.LimitText))
		t.Text = outlook(&item, account, p.window)
	}
	return t
}

// outlook describes the growth of use, and when the quota is full at this rate.
func outlook(item *overview.Item, account *history.Account, w window) string {
	if account.Growth() <= 0 {
		return "Use did not grow in " + w.name + "."
	}
	text := "Use grew by " + item.Unit.Amount(account.Growth()) + " in " + w.name + "."
	if after, isKnown := account.FullIn(); isKnown && item.IsGranted() && !item.IsFull() {
		text += " At this rate the quota is full " + inDays(after) + "."
	}
	return text
}

// inDays names the number of days from now.
func inDays(after time.Duration) string {
	switch days := int(after / day); {
	case days < 1:
		return "in less than a day"
	case days == 1:
		return "in about 1 day"
	case days > 365:
		return "in more than a year"
	default:
		return fmt.Sprintf("in about %d days", days)
	}
}

// chartOf draws the history of an account.
func chartOf(account *history.Account, gaps []history.Gap, label string) template.HTML {
	drawing := chart.Trend{Label: label}
	drawing.Used, drawing.Limit = account.Samples(chartColumns)
	length := account.Until.Sub(account.From)
	place := func(t time.Time) float64 { return float64(t.Sub(account.From)) / float64(max(length, 1)) }
	for i := range gaps {
		if gap := &gaps[i]; gap.ConsumerRef == account.ConsumerRef && gap.Since != nil {
			drawing.Gaps = append(drawing.Gaps, chart.Span{From: place(*gap.Since), To: place(gap.Until)})
		}
	}
	return drawing.SVG()
}
