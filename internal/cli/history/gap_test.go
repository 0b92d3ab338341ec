package history

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/usage"
)

// After a gap, the Opened entry has the level. Without one, the next entry has it.
func TestHistoryGaps(t *testing.T) {
	w := write(web).maps(1, journal.Admitted, "a", 2).open(5, 7, 3, 9)
	w.levels["shop/maps"] = level{used: 6, limit: 4}
	w.maps(8, journal.Released, "b", -1)
	report, err := Read(t.Context(), w.written, Options{Selection: Selection{Now: at(10)}, Style: Style{Width: 30, IsASCII: true}})
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := report.Print(&page, ""); err != nil {
		t.Fatal(err)
	}
	if actor := report.Items[0].LimitChanges[1].Actor; actor != "" {
		t.Errorf("%s changed the limit in a gap, but only released an object after it", actor)
	}
	_, got, _ := strings.Cut(page.String(), "\n\n")
	checkText(t, got, `
2026-11-01T05:00:00Z  The limit was raised from 0 to 9 after 2026-11-01T01:00:00Z: the journal has a gap.
2026-11-01T08:00:00Z  The limit was lowered from 9 to 4 after 2026-11-01T05:00:00Z: the journal has a gap.

TIME                   EVENT      OBJECT                         CHANGE   USED/LIMIT   ACTOR
2026-11-01T01:00:00Z   admitted   ConfigMap web/a                +2       2/0          tom
2026-11-01T05:00:00Z   opened     7 entries before it are lost   +1       3/9          -
2026-11-01T08:00:00Z   released   ConfigMap web/b                -1       5/4          tom

The journal has a gap from 2026-11-01T01:00:00Z to 2026-11-01T05:00:00Z: it lost 7 changes of Project/web.
`)
}

// A report names the gap, whatever else it prints about the use.
func TestGapsAreReported(t *testing.T) {
	lost := write(web).maps(1, journal.Admitted, "a", 2).open(5, 7, 2, 9).maps(6, journal.Admitted, "b", 1)
	missing := write(web).maps(1, journal.Admitted, "a", 2)
	missing.sequence += 3
	missing.maps(8, journal.Released, "a", -2)
	off := write(web).maps(1, journal.Admitted, "a", 2).open(5, 0, 3, 9)
	for name, tt := range map[string]struct {
		reason  string
		entries entries
		options Options
		want    string
	}{
		"Lost":    {"changes are lost", lost.written, Options{ChangesMax: 1}, "The journal has a gap from 2026-11-01T01:00:00Z to 2026-11-01T05:00:00Z: it lost 7 changes of Project/web."},
		"Limits":  {"a change of a limit may be among them", lost.written, Options{OnlyLimits: true}, "The journal has a gap from 2026-11-01T01:00:00Z to 2026-11-01T05:00:00Z: it lost 7 changes of Project/web."},
		"Earlier": {"the gap is before the window", lost.written, Options{Selection: Selection{Since: at(5.5)}}, ""},
		"Other":   {"it is in the journal of another", slices.Concat(lost.written, write(data).maps(2, journal.Admitted, "x", 1).written), Options{Selection: Selection{Consumer: "project/data"}}, ""},
		"Begin":   {"the first entry has lost some", write(web).open(5, 7, 3, 9).written, Options{}, "The journal has a gap before 2026-11-01T05:00:00Z: it lost 7 changes of Project/web."},
		"Missing": {"a file is missing", missing.written, Options{}, "The journal has a gap from 2026-11-01T01:00:00Z to 2026-11-01T08:00:00Z: it lost 3 changes of Project/web."},
		"Nothing": {"no limit has changed", write(data).open(1, 0, 0, 0).open(5, 7, 0, 0).written, Options{OnlyLimits: true}, "The journal has a gap from 2026-11-01T01:00:00Z to 2026-11-01T05:00:00Z: it lost 7 changes of Project/data."},
		"Off":     {"the journal was switched off", off.written, Options{}, "The journal has a gap from 2026-11-01T01:00:00Z to 2026-11-01T05:00:00Z: the changes of Project/web are unknown."},
		"Opened":  {"nothing has changed in between", write(web).maps(1, journal.Admitted, "a", 2).open(5, 0, 2, 0).written, Options{}, ""},
		"None":    {"nothing is missing", shop(), Options{OnlyLimits: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tt.options.Now = at(10)
			report, err := Read(t.Context(), tt.entries, tt.options)
			if err != nil || report.IsEmpty() {
				t.Fatalf("got %v and %v, want a report", report, err)
			}
			var page, script strings.Builder
			if err := errors.Join(report.Print(&page, ""), report.Print(&script, usage.FormatJSON)); err != nil {
				t.Fatal(err)
			}
			_, got, _ := strings.Cut(page.String(), "The journal has")
			if got != "" {
				got = "The journal has" + strings.TrimSuffix(got, "\n")
			}
			if isInScript := strings.Contains(script.String(), `"gaps"`); got != tt.want || isInScript != (tt.want != "") {
				t.Errorf("%s: got %q and %s, want %q", tt.reason, got, script.String(), tt.want)
			}
		})
	}
}
