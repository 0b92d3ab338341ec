package quotahistory_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/quotahistory"
	"github.com/bursar/bursar/internal/journal"
)

// damaged is a source with a damaged line.
type damaged struct{ memory }

func (d *damaged) Entries(ctx context.Context, query journal.Query) iter.Seq2[journal.Entry, error] {
	query.Damage.Add("journal/a.jsonl", 11, errors.New("invalid character"))
	return d.memory.Entries(ctx, query)
}

// A history answers in spite of damaged lines, and warns with their number. The place is for those who see everything.
func TestDamaged(t *testing.T) {
	for name, tt := range map[string]struct {
		permissions *permissions
		want        string
	}{
		"Auditor": {may(everything), "skipped 1 damaged line of the journal, so entries may be missing: journal/a.jsonl: line 11: invalid character"},
		"Tenant":  {may(figures), "skipped 1 damaged line of the journal, so entries may be missing"},
	} {
		t.Run(name, func(t *testing.T) {
			q := question{permissions: tt.permissions, spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme}}
			reader := quotahistory.New(quotahistory.Dependencies{
				Journal: &damaged{memory{entries: admissions(2)}}, Consumers: consumers{}, Permissions: tt.permissions,
			})

			response, _ := q.ask(t, reader.Handler())

			if diff := cmp.Diff([]string{tt.want}, response.Warnings); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := metricsOf(t, reader); !strings.Contains(got, "bursar_journal_damaged_lines 1") {
				t.Errorf("the metrics are\n%s", got)
			}
		})
	}
}

// An unreadable journal is known at the start, before anybody asks for a history, until it can be read.
func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &memory{err: errors.New("access denied")}
		reader := quotahistory.New(quotahistory.Dependencies{Journal: source, Consumers: consumers{}, Permissions: may(everything)})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- reader.Run(ctx) }()

		synctest.Wait()
		if got := metricsOf(t, reader); !strings.Contains(got, `bursar_journal_read_failing{error="access denied"} 1`) {
			t.Errorf("at the start the metrics are\n%s", got)
		}

		source.heal()
		time.Sleep(time.Minute) // of the test's own clock
		synctest.Wait()
		if got := metricsOf(t, reader); strings.Contains(got, "bursar_journal_read_failing{") {
			t.Errorf("once it can be read the metrics are\n%s", got)
		}

		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// metricsOf returns the metrics of a reader as a scrape has them.
func metricsOf(t *testing.T, reader *quotahistory.Reader) string {
	t.Helper()
	text, err := testutil.CollectAndFormat(reader.Collectors()[0], expfmt.TypeTextPlain, "bursar_journal_damaged_lines", "bursar_journal_read_failing")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
