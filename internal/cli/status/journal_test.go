package status

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJournal(t *testing.T) {
	const info = `bursar_journal_info{location="/data/a \"b\""} 1` + "\nbursar_journal_entries_total 7\n"
	for name, tt := range map[string]struct {
		reason, metrics string
		want            Check
	}{
		"Fine":    {"nothing waits", info, Check{State: OK, Text: `stored in /data/a "b"`}},
		"None":    {"it is switched off", "bursar_ready 1\n", Check{State: OK, Text: "none is kept"}},
		"Earlier": {"the operator is older", "bursar_journal_entries_total 7\n", Check{State: OK, Text: "stored"}},
		"Busy": {
			"entries wait for a moment", info + "bursar_journal_waiting_entries 12\nbursar_journal_oldest_waiting_seconds 1.2\n",
			Check{State: OK, Text: `stored in /data/a "b"; waiting: 12, the oldest for 1s`},
		},
		"StandsStill": {
			"the disk is full", info + "bursar_journal_waiting_entries 312\nbursar_journal_oldest_waiting_seconds 75\n",
			Check{
				State: Failed, Text: `stored in /data/a "b"; waiting: 312, the oldest for 1m15s`,
				Details: []string{"it cannot store entries in time: see the error in Bursar's log; creates continue"},
			},
		},
		"Fails": {
			"the bucket is out of reach", info + "bursar_journal_waiting_entries 4\nbursar_journal_oldest_waiting_seconds 5\n" +
				"bursar_journal_failing{error=\"write the journal to the bucket b at s3: connection refused\"} 1\n",
			Check{
				State: Failed, Text: `stored in /data/a "b"; waiting: 4, the oldest for 5s`,
				Details: []string{"it cannot store entries: write the journal to the bucket b at s3: connection refused; creates continue, and the entries follow once it can"},
			},
		},
		"Unreadable": {
			"it may write and not read", info + "bursar_journal_read_failing{error=\"list the journal: access denied\"} 1\n",
			Check{
				State: Failed, Text: `stored in /data/a "b"`,
				Details: []string{"it cannot be read, so bursar history does not answer: list the journal: access denied"},
			},
		},
		"Damaged": {
			"somebody edited a file", info + "bursar_journal_damaged_lines 3\n",
			Check{
				State: Warning, Text: `stored in /data/a "b"`,
				Details: []string{"3 damaged lines are skipped by bursar history, which names the first: see docs/tasks/troubleshooting.md#the-journal-is-damaged"},
			},
		},
		"Lost": {
			"it was full for too long", info + "bursar_journal_lost_changes_total 5\n",
			Check{State: Failed, Text: `stored in /data/a "b"`, Details: []string{"5 changes are lost since the operator started; bursar history names the gaps"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.want.Name = "journal"
			m, err := parseMetrics([]byte(tt.metrics))
			if err != nil {
				t.Fatal(err)
			}
			r := &reader{metrics: m}
			if diff := cmp.Diff(tt.want, r.journal(t.Context())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
	if got := (&reader{metricsErr: errors.New("no metrics")}).journal(t.Context()); got.State != Unknown {
		t.Errorf("without metrics: got %v, want unknown", got)
	}
}
