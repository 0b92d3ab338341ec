package tenant

import (
	"context"
	"iter"
	"testing"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/history"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/usage"
)

// entries are a journal.
type entries []journal.Entry

// Entries implements [journal.Source].
func (all entries) Entries(context.Context, journal.Query) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for _, entry := range all {
			if !yield(entry, nil) {
				return
			}
		}
	}
}

// The growth of the first hours is no forecast.
func TestOutlook(t *testing.T) {
	now := time.Now()
	web := quotav1alpha1.ConsumerRef{APIGroup: "platform.example.com", Kind: "Project", Name: "web"}
	item := &overview.Item{Usage: usage.Usage{Consumer: web, ResourceType: "cores", Used: 14, Limit: 38}, Unit: usage.Unit{Name: "core", Factor: 1}}
	for age, want := range map[time.Duration]string{
		6 * day:       "Use grew by 14 cores in the last 7 days. At this rate the quota is full in about 12 days.",
		6 * time.Hour: "Use grew by 14 cores in the last 7 days.",
	} {
		written := entries{{
			Consumer: web, ResourceType: "cores", Kind: journal.Admitted, Time: now.Add(-age), Sequence: 1, Change: 14, Used: 14, Limit: 38,
		}}
		report, err := history.Read(t.Context(), written, history.Options{ChangesMax: 1, Selection: history.Selection{
			Consumer: overview.ReferenceTo(web), Since: now.Add(-7 * day), Now: now, IsLenient: true,
		}})
		if err != nil || len(report.Items) != 1 {
			t.Fatalf("got %v and %v, want one account", report, err)
		}
		if got := outlook(item, &report.Items[0], windows[0]); got != want {
			t.Errorf("a change %s ago: got %q, want %q", age, got, want)
		}
	}
}
