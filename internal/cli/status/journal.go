package status

import (
	"context"
	"fmt"
	"time"

	"github.com/bursar/bursar/internal/claims/message"
)

// standsStillAfter is how long an entry of the journal may wait. The alert BursarJournalStandsStill has the same bound.
const standsStillAfter = time.Minute

// journal checks whether the journal can be written and read, stands still, is damaged, or has lost changes.
func (r *reader) journal(context.Context) Check {
	const name = "journal"
	if r.metrics == nil {
		return unknown(name, r.metricsErr)
	}
	if _, isKept := r.metrics.sums["bursar_journal_entries_total"]; !isKept {
		return Check{Name: name, State: OK, Text: "none is kept"}
	}

	check := Check{Name: name, State: OK, Text: "stored in " + r.metrics.journalAt}
	if r.metrics.journalAt == "" {
		check.Text = "stored" // the operator is of an earlier version
	}
	r.metrics.checkWrites(&check)
	r.metrics.checkReads(&check)
	r.metrics.checkLosses(&check)
	return check
}

// checkWrites finds out whether the journal stores its entries, and in time.
func (m *metrics) checkWrites(check *Check) {
	waiting := m.sums["bursar_journal_waiting_entries"]
	oldest := time.Duration(m.sums["bursar_journal_oldest_waiting_seconds"] * float64(time.Second)).Round(time.Second)
	if waiting > 0 {
		check.Text += fmt.Sprintf("; waiting: %g, the oldest for %s", waiting, oldest)
	}

	switch {
	case m.writeError != "":
		check.fail("it cannot store entries: " + m.writeError + "; creates continue, and the entries follow once it can")
	case oldest > standsStillAfter:
		check.fail("it cannot store entries in time: see the error in Bursar's log; creates continue")
	}
}

// checkReads finds out whether the journal can be read, and all of its lines.
func (m *metrics) checkReads(check *Check) {
	if m.readError != "" {
		check.fail("it cannot be read, so bursar history does not answer: " + m.readError)
	}
	if damaged := m.sums["bursar_journal_damaged_lines"]; damaged > 0 {
		check.warn(message.Count(damaged, "damaged line is", "damaged lines are") +
			" skipped by bursar history, which names the first: see docs/tasks/troubleshooting.md#the-journal-is-damaged")
	}
}

// checkLosses finds out whether entries were deleted early or never stored.
func (m *metrics) checkLosses(check *Check) {
	if early := m.sums["bursar_journal_files_deleted_early_total"]; early > 0 {
		check.warn(message.Count(early, "file was", "files were") +
			" deleted before the end of the retention since the operator started, because all files are larger than journal.file.maxBytes")
	}
	if lost := m.sums["bursar_journal_lost_changes_total"]; lost > 0 {
		check.fail(message.Count(lost, "change is", "changes are") + " lost since the operator started; bursar history names the gaps")
	}
}
