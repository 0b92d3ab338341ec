package history

import (
	"context"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/usage"
)

// entries are a source.
type entries []journal.Entry

func (e entries) Entries(_ context.Context, query journal.Query) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for i := range e {
			if query.Matches(&e[i]) && !yield(e[i], nil) {
				return
			}
		}
	}
}

var (
	start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	web   = quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Project", Name: "web"}
	data  = quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Project", Name: "data"}
)

// at returns a time of the test's day.
func at(hours float64) time.Time {
	return start.Add(time.Duration(hours * float64(time.Hour)).Round(time.Millisecond))
}

func window(since, until float64) Selection {
	return Selection{Since: at(since), Until: at(until), Now: at(until)}
}

// writer writes the journal of a consumer as a ledger would.
type writer struct {
	consumer quotav1alpha1.ConsumerRef
	sequence int64
	levels   map[string]level
	written  entries
}

func write(consumer quotav1alpha1.ConsumerRef) *writer {
	return &writer{consumer: consumer, levels: map[string]level{}}
}

func (w *writer) put(e journal.Entry) *writer {
	w.sequence++
	e.Consumer, e.Sequence = w.consumer, w.sequence
	w.written = append(w.written, e)
	return w
}

// limit changes the limit of maps by a grant of the given name.
func (w *writer) limit(hours float64, change int64, grant, actor string) *writer {
	l := w.levels["shop/maps"]
	l.limit += change
	w.levels["shop/maps"] = l
	return w.put(journal.Entry{
		Time: at(hours), Kind: journal.LimitChanged, ResourceType: "shop/maps", Change: change, Used: l.used, Limit: l.limit, Grant: grant, Actor: actor,
	})
}

// use changes the use of a resource type by a ConfigMap.
func (w *writer) use(hours float64, kind journal.Kind, uid, resourceType string, change int64) *writer {
	l := w.levels[resourceType]
	l.used += change
	w.levels[resourceType] = l
	return w.put(journal.Entry{
		Time: at(hours), Kind: kind, ResourceType: resourceType, Change: change, Used: l.used, Limit: l.limit, Policy: "maps", Actor: "tom",
		Object: &journal.Object{Kind: "ConfigMap", Namespace: w.consumer.Name, Name: uid, UID: w.consumer.Name + "-" + uid},
	})
}

func (w *writer) maps(hours float64, kind journal.Kind, uid string, change int64) *writer {
	return w.use(hours, kind, uid, "shop/maps", change)
}

// open opens the journal with a level of maps after the loss of some entries.
func (w *writer) open(hours float64, lost, used, limit int64) *writer {
	w.sequence += lost
	w.levels = map[string]level{"shop/maps": {used, limit}}
	o := &journal.Opening{Lost: lost}
	if used > 0 {
		o.Balances = []journal.Balance{
			{ResourceType: "shop/maps", Dimensions: map[string]string{"region": "eu"}, Amount: 1}, {ResourceType: "shop/maps", Amount: used - 1},
		}
	}
	if limit > 0 {
		o.Limits = []journal.Limit{{ResourceType: "shop/maps", Grant: "base", Amount: limit}}
	}
	return w.put(journal.Entry{Time: at(hours), Kind: journal.Opened, Opening: o})
}

// shop has two projects. One of them got more and filled it.
func shop() entries {
	w := write(web).open(0, 0, 0, 0).limit(0, 4, "org/base", "ann").
		maps(2, journal.Admitted, "a", 1).maps(4, journal.Admitted, "b", 3).
		limit(8, 4, "org/more", "system:serviceaccount:bursar-system:bursar").
		maps(10, journal.Admitted, "c", 4).maps(12, journal.Released, "b", -3).
		limit(16, -2, "org/more", "")
	d := write(data).open(1, 0, 2, 10).maps(6, journal.Admitted, "x", 1).maps(5.9999, journal.Canceled, "x", -1)
	return slices.Concat(d.written, w.written)
}

func checkText(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestHistory(t *testing.T) {
	for name, tt := range map[string]struct {
		options Options
		style   Style
		want    string
	}{
		"of a project": {Options{Selection: Selection{Consumer: "project/web", Now: at(24)}, ChangesMax: 3}, Style{Width: 60}, `
shop/maps of Project/web: used 5 of 6, at most 8  (─ used, ═ limit)
 8┤                 ╔════╭─────╮════════╗
 7┤                 ║    │     │        ║
 6┤                 ║    │     │        ╚══════════════════
 5┤                 ║    │     ╰───────────────────────────
 4┼════════╭─────────────╯
 3┤        │
 2┤        │
 1┤   ╭────╯
 0┼───╯
   2026-11-01 00:00                    2026-11-02 00:00 UTC

2026-11-01T00:00:00Z  The limit was raised from 0 to 4 by ann, in ResourceGrant org/base.
2026-11-01T08:00:00Z  The limit was raised from 4 to 8 by system:serviceaccount:bursar-system:bursar, in ResourceGrant org/more.
2026-11-01T16:00:00Z  The limit was lowered from 8 to 6, in ResourceGrant org/more; the author is not recorded, or not shown to you.

The latest changes of use; 1 before them are left out, and --changes 0 shows all:
TIME                   EVENT      OBJECT            CHANGE   USED/LIMIT   ACTOR
2026-11-01T04:00:00Z   admitted   ConfigMap web/b   +3       4/4          tom
2026-11-01T10:00:00Z   admitted   ConfigMap web/c   +4       8/8          tom
2026-11-01T12:00:00Z   released   ConfigMap web/b   -3       5/8          tom
`},
		"in ASCII, in display units, in a window": {
			Options{
				Selection: Selection{Consumer: "Project.example.com/web", ResourceType: "maps", Since: at(9), Until: at(15), Now: at(24)}, ChangesMax: 1,
				Units: Units{"shop/maps": usage.Unit{Name: "map", Factor: 1}},
			},
			Style{Width: 50, IsASCII: true}, `
shop/maps of Project/web: used 5 maps of 8 maps, at most 8 maps  (- used, = limit, unit: map)
 8+======+----------------+======================
 7|      |                |
 6|      |                |
 5|      |                +----------------------
 4+------+
 3|
 2|
 1|
 0|
   2026-11-01 09:00          2026-11-01 15:00 UTC

The limit did not change from 2026-11-01T09:00:00Z to 2026-11-01T15:00:00Z.

The latest changes of use; 1 before them are left out, and --changes 0 shows all:
TIME                   EVENT      OBJECT            CHANGE    USED/LIMIT      ACTOR
2026-11-01T12:00:00Z   released   ConfigMap web/b   -3 maps   5 maps/8 maps   tom
`},
		"limits of everyone": {Options{Selection: Selection{Now: at(24)}, OnlyLimits: true}, Style{}, `
TIME                   CONSUMER      RESOURCE TYPE   FROM   TO    GRANT      CHANGED BY
2026-11-01T00:00:00Z   Project/web   shop/maps       0      4     org/base   ann
2026-11-01T08:00:00Z   Project/web   shop/maps       4      8     org/more   system:serviceaccount:bursar-system:bursar
2026-11-01T16:00:00Z   Project/web   shop/maps       8      6     org/more   -
`},
	} {
		t.Run(name, func(t *testing.T) {
			tt.options.Style = tt.style
			report, err := Read(t.Context(), shop(), tt.options)
			if err != nil {
				t.Fatal(err)
			}
			var page strings.Builder
			if err := report.Print(&page, ""); err != nil {
				t.Fatal(err)
			}
			checkText(t, page.String(), tt.want)
		})
	}
}

// The figures do not depend on the printed parts.
func TestFiguresOfLimits(t *testing.T) {
	for name, selection := range map[string]Selection{"all": {Now: at(24)}, "a window": window(5, 20), "its end": window(15, 20)} {
		selection.Consumer = "project/web"
		var peaks []int64
		for _, isOnly := range []bool{false, true} {
			report, err := Read(t.Context(), shop(), Options{Selection: selection, OnlyLimits: isOnly})
			if err != nil || report.IsEmpty() {
				t.Fatalf("%s: got %v and %v, want a report", name, report, err)
			}
			peaks = append(peaks, report.Items[0].PeakUsed)
		}
		if peaks[0] == 0 || peaks[0] != peaks[1] {
			t.Errorf("%s: the most that was used is %d, and with limits only %d", name, peaks[0], peaks[1])
		}
	}
}

func TestSelectionErrors(t *testing.T) {
	namesake := write(quotav1alpha1.ConsumerRef{APIGroup: "other.com", Kind: "Project", Name: "web"}).use(1, journal.Admitted, "a", "other/maps", 1)
	all := slices.Concat(shop(), namesake.written)
	for name, tt := range map[string]struct {
		selection Selection
		want      string
	}{
		"no consumer":             {Selection{}, "name a consumer, such as bursar history KIND/NAME, or list the limits of all with --limits; the journal has "},
		"no name":                 {Selection{Consumer: "web"}, `the consumer "web" is not KIND/NAME`},
		"unknown consumer":        {Selection{Consumer: "project/wb"}, "the journal has no entry of a consumer project/wb; it has those of Project.example.com/web, "},
		"two consumers":           {Selection{Consumer: "project/web"}, "project/web names several consumers: choose one of Project.example.com/web, Project.other.com/web"},
		"unknown type":            {Selection{Consumer: "project/data", ResourceType: "mops"}, "the journal has no entry of a resource type mops; it has those of shop/maps"},
		"from the future":         {Selection{Consumer: "project/data", Since: at(25)}, "--since: 2026-11-02T01:00:00Z is in the future"},
		"an end at the start":     {Selection{Consumer: "project/data", Since: at(3), Until: at(3)}, "--until: 2026-11-01T03:00:00Z is not after --since, which is 2026-11-01T03:00:00Z"},
		"before the journal":      {Selection{Consumer: "project/web", Until: at(-1)}, "the journal has no entry of a consumer project/web before 2026-10-31T23:00:00Z: check the name and the times"},
		"unknown in full":         {Selection{Consumer: "Project.example.com/wb"}, "the journal has no entry of a consumer Project.example.com/wb: check the name"},
		"a namespace too many":    {Selection{Consumer: "Project.example.com/space/web"}, "the journal has no entry of a consumer Project.example.com/space/web"},
		"a kind that has no name": {Selection{Consumer: "project/"}, `the consumer "project/" is not KIND/NAME`},
	} {
		tt.selection.Now = at(24)
		if _, err := Read(t.Context(), all, Options{Selection: tt.selection}); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

// An empty journal has no history, no movers, no use and no creates. Reading it is no error.
func TestEmptyJournal(t *testing.T) {
	ctx, all := t.Context(), Selection{Now: at(24)}
	if report, err := Read(ctx, entries{}, Options{Selection: all}); err != nil || !report.IsEmpty() {
		t.Errorf("history: %v, %v", report, err)
	}
	if top, err := ReadTop(ctx, entries{}, TopOptions{Selection: all, By: ByUse, Max: 1}); err != nil || len(top.Items) > 0 {
		t.Errorf("top: %v, %v", top, err)
	}
	if showback, err := ReadShowback(ctx, entries{}, all, PeriodDay, nil); err != nil || !showback.IsEmpty() {
		t.Errorf("showback: %v, %v", showback, err)
	}
	if result, err := Replay(ctx, entries{}, ReplayOptions{Selection: all, Limits: limits("maps=1")}); err != nil || !result.IsEmpty() {
		t.Errorf("backtest: %v, %v", result, err)
	}
	named := Selection{ResourceType: "mops", Now: at(24)}
	opened := write(web).put(journal.Entry{Time: at(1), Kind: journal.Opened, Opening: &journal.Opening{}})
	for name, source := range map[string]entries{"empty": {}, "opened": opened.written} {
		if _, err := Read(ctx, source, Options{Selection: named}); err == nil || err.Error() != "the journal has no entry of a resource type mops: check the name" {
			t.Errorf("history of a named type in an %s journal: got %v, want an error", name, err)
		}
	}
	if _, err := Read(ctx, nil, Options{Selection: all}); err == nil {
		t.Error("no journal: want an error")
	}
}

func TestTop(t *testing.T) {
	huge := write(quotav1alpha1.ConsumerRef{Kind: "Project", Name: "huge"})
	huge.levels["shop/maps"] = level{limit: 1<<63 - 1}
	huge.maps(11, journal.Admitted, "a", 1<<63-2)
	none := write(quotav1alpha1.ConsumerRef{Kind: "Project", Name: "none"}).maps(11, journal.Admitted, "a", 3)
	all := slices.Concat(shop(), huge.written, none.written)
	for name, tt := range map[string]struct {
		options TopOptions
		want    string
	}{
		"by use": {TopOptions{Selection: window(3, 20), By: ByUse, Max: 3}, `
CONSUMER       RESOURCE TYPE   CHANGE                 OF LIMIT   USED NOW              LIMIT NOW
Project/none   shop/maps       +3                     new        3                     0
Project/huge   shop/maps       +9223372036854775806   +99%       9223372036854775806   9223372036854775807
Project/web    shop/maps       +4                     +67%       5                     6
`},
		"by limit": {TopOptions{Selection: window(3, 20), By: ByLimit, Max: 3}, `
CONSUMER      RESOURCE TYPE   CHANGE   OF BEFORE   USED NOW   LIMIT NOW
Project/web   shop/maps       +2       +50%        5          6
`},
		"what was there when the journal was opened is no change": {TopOptions{Selection: window(0.5, 5), By: ByUse, Max: 9}, `
CONSUMER      RESOURCE TYPE   CHANGE   OF LIMIT   USED NOW   LIMIT NOW
Project/web   shop/maps       +4       +100%      4          4
`},
		"less": {TopOptions{Selection: window(11, 20), By: ByUse, Max: 9}, `
CONSUMER       RESOURCE TYPE   CHANGE                 OF LIMIT   USED NOW              LIMIT NOW
Project/none   shop/maps       +3                     new        3                     0
Project/huge   shop/maps       +9223372036854775806   +99%       9223372036854775806   9223372036854775807
Project/web    shop/maps       -3                     -38%       5                     6
`},
	} {
		t.Run(name, func(t *testing.T) {
			top, err := ReadTop(t.Context(), all, tt.options)
			if err != nil {
				t.Fatal(err)
			}
			var page strings.Builder
			if err := top.Print(&page, ""); err != nil {
				t.Fatal(err)
			}
			checkText(t, page.String(), tt.want)
		})
	}
}

func TestSumsStayInRange(t *testing.T) {
	const most, least = int64(math.MaxInt64), int64(math.MinInt64)
	for _, tt := range []struct{ got, want int64 }{
		{sum(most, 1), most}, {sum(least, -1), least}, {sum(most, least), -1}, {sum(least, least), least}, {sum(2, -3), -1},
		{less(3, 2), 1}, {less(2, 3), 0}, {less(most, -1), most}, {less(0, least), most},
	} {
		if tt.got != tt.want {
			t.Errorf("got %d, want %d", tt.got, tt.want)
		}
	}
}

// known is a source with a list of its consumers.
type known struct{ entries }

func (known) Consumers(context.Context) ([]quotav1alpha1.ConsumerRef, error) {
	return []quotav1alpha1.ConsumerRef{data, web}, nil
}

// remote is a source with pages. It counts the entries it yields.
type remote struct {
	entries
	read *int
}

func (remote) PageMax() int { return 1000 }

func (r remote) Entries(ctx context.Context, query journal.Query) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for e, err := range r.entries.Entries(ctx, query) {
			*r.read++
			if !yield(e, err) {
				return
			}
		}
	}
}

// Over the API, a query reads no more than the window, and has the same levels at its start. For a name without entries
// there, it reads everything.
func TestOnlyTheWindowIsRead(t *testing.T) {
	all := slices.Concat(shop(), write(web).use(1, journal.Admitted, "s", "shop/fleets", 3).written)
	for name, tt := range map[string]struct {
		selection Selection
		read      int
		note      bool
	}{
		"Changed":   {Selection{Since: at(9), Until: at(15), Consumer: "project/web"}, 2, true},
		"One type":  {Selection{Since: at(9), Until: at(15), Consumer: "project/web", ResourceType: "maps"}, 2, false},
		"Quiet":     {Selection{Since: at(13), Until: at(15), Consumer: "project/web"}, 11, false},
		"Type":      {Selection{Since: at(9), Until: at(15), Consumer: "project/web", ResourceType: "fleets"}, 13, false},
		"No window": {Selection{Consumer: "project/web"}, 12, false},
	} {
		t.Run(name, func(t *testing.T) {
			tt.selection.Now = at(24)
			var read int
			got, err := Read(t.Context(), remote{all, &read}, Options{Selection: tt.selection})
			if err != nil || got.IsEmpty() {
				t.Fatalf("got %v and %v, want a report", got, err)
			}
			want, err := Read(t.Context(), all, Options{Selection: tt.selection})
			if err != nil {
				t.Fatal(err)
			}
			want.Items = slices.DeleteFunc(want.Items, func(a Account) bool { return name == "Changed" && a.ResourceType == "shop/fleets" })
			if diff := cmp.Diff(want.Items, got.Items, cmpopts.IgnoreUnexported(Account{})); diff != "" || read != tt.read {
				t.Errorf("%d entries are read, want %d; (-all +window):\n%s", read, tt.read, diff)
			}
			var page strings.Builder
			if err := got.Print(&page, ""); err != nil || strings.Contains(page.String(), "are left out; --resource-type") != tt.note {
				t.Errorf("got %s and %v, want a note: %t", page.String(), err, tt.note)
			}
		})
	}
}

func TestKindInAnyCase(t *testing.T) {
	for name, source := range map[string]journal.Source{"files": entries(shop()), "an API server": known{shop()}} {
		for _, consumer := range []string{"project.example.com/web", "PROJECT.example.com/web", "Project.Example.com/web", "Project.example.com/web"} {
			report, err := Read(t.Context(), source, Options{Selection: Selection{Consumer: consumer, Now: at(24)}})
			if err != nil || report.IsEmpty() {
				t.Errorf("%s from %s: got %v and error %v, want a report", consumer, name, report, err)
			}
		}
	}
}

func TestNoControlCharacters(t *testing.T) {
	evil := "\x1b[2J"
	all := write(quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Project", Name: "web" + evil})
	all.limit(1, 5, "org/base"+evil, "ann"+evil)
	all.put(journal.Entry{
		Time: at(2), Kind: journal.Admitted, ResourceType: "shop/maps" + evil, Change: 1, Used: 1,
		Object: &journal.Object{Kind: "ConfigMap" + evil, Namespace: "shop", Name: "a" + evil},
	})
	for name, o := range map[string]Options{"history": {}, "limits": {OnlyLimits: true}} {
		o.Selection.Now = at(24)
		report, err := Read(t.Context(), all.written, o)
		if err != nil {
			t.Fatal(err)
		}
		var page strings.Builder
		if err := report.Print(&page, ""); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(page.String(), evil) {
			t.Errorf("%s: got %q, want no control characters", name, page.String())
		}
	}
}
