package history

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/usage"
)

func limits(arguments ...string) []request.Amount {
	amounts, err := request.ParseAmounts(arguments, 0)
	if err != nil {
		panic(err)
	}
	return amounts
}

func TestReplay(t *testing.T) {
	huge := write(web)
	huge.levels["shop/maps"] = level{used: math.MaxInt64 - 5}
	huge.maps(1, journal.Admitted, "a", 5).maps(2, journal.Released, "a", -5).maps(3, journal.Admitted, "b", 1)
	lacking := write(web).maps(1, journal.Admitted, "a", 2)
	lacking.sequence, lacking.levels["shop/maps"] = 40, level{used: 21} // a file between both is missing
	lacking.maps(4, journal.Admitted, "b", 1).maps(5, journal.Released, "b", -1)
	repeated := write(web).maps(1, journal.Admitted, "a", 2).maps(2, journal.Admitted, "b", 9).maps(3, journal.Released, "b", -9).
		maps(4, journal.Admitted, "c", 2).maps(5, journal.Admitted, "b", 1).maps(6, journal.Released, "b", -1).maps(7, journal.Admitted, "d", 1)
	for i, uid := range map[int]string{2: "second try", 4: "another", 5: "another"} {
		repeated.written[i].Object.UID = uid
	}
	for name, tt := range map[string]struct {
		entries entries
		limits  []string
		since   float64
		want    string
	}{
		"after a gap without an opening, the next entry says what is in use": {
			lacking.written, []string{"maps=20"}, 0,
			"\nProject/web   shop/maps       20      2         1        ConfigMap web/b at 2026-11-01T04:00:00Z   22     22\n",
		},
		"one would have been denied": {shop(), []string{"maps=5"}, 0, `
Project/data   shop/maps       5       1         0        -                                            3      3
Project/web    shop/maps       5       3         1        ConfigMap web/c at 2026-11-01T10:00:00Z   8      8
`},
		"the release of a denied object frees nothing": {
			write(web).maps(1, journal.Admitted, "a", 2).maps(2, journal.Admitted, "b", 9).maps(3, journal.Released, "b", -9).
				maps(4, journal.Admitted, "c", 2).written, []string{"shop/maps=3"}, 0,
			"\nProject/web   shop/maps       3       3         2        ConfigMap web/b at 2026-11-01T02:00:00Z   11     11\n",
		},
		"a repeated create has the entry of its first attempt": {
			repeated.written, []string{"shop/maps=3"}, 0,
			"\nProject/web   shop/maps       3       5         2        ConfigMap web/b at 2026-11-01T02:00:00Z   11     11\n",
		},
		"an existing object keeps what it had": {
			write(web).maps(1, journal.Admitted, "a", 2).maps(2, journal.Changed, "a", 5).maps(3, journal.Admitted, "b", 2).
				maps(4, journal.Released, "a", -7).maps(5, journal.Admitted, "c", 3).written, []string{"maps=3"}, 0,
			"\nProject/web   shop/maps       3       4         2        ConfigMap web/a at 2026-11-01T02:00:00Z   9      9\n",
		},
		"what is in use at the start counts, until it is released": {shop(), []string{"maps=4"}, 11, `
Project/web   shop/maps       4       0         0        -              8      0
`},
		"one resource type denies the whole object": {
			write(web).use(1, journal.Admitted, "a", "cpu", 2).use(1, journal.Admitted, "a", "memory", 8).use(2, journal.Released, "a", "cpu", -2).
				use(2, journal.Released, "a", "memory", -8).use(3, journal.Admitted, "b", "cpu", 3).written, []string{"cpu=3", "memory=4"}, 0, `
Project/web   cpu             3       2         0        -                                            3      3
Project/web   memory          4       1         1        ConfigMap web/a at 2026-11-01T01:00:00Z   8      8
`},
		"dimensions add up": {
			write(web).maps(1, journal.Admitted, "a", 2).maps(1, journal.Admitted, "a", 2).written, []string{"maps=3"}, 0,
			"\nProject/web   shop/maps       3       1         1        ConfigMap web/a at 2026-11-01T01:00:00Z   4      4\n",
		},
		"huge": {huge.written, []string{"maps=9223372036854775806"}, 0, `
Project/web   shop/maps       9223372036854775806   2         1        ConfigMap web/a at 2026-11-01T01:00:00Z   9223372036854775807   9223372036854775807
`},
		"after a gap all that is in use counts": {
			write(web).maps(1, journal.Admitted, "a", 2).maps(2, journal.Admitted, "b", 9).open(3, 5, 7, 20).
				maps(4, journal.Released, "b", -6).maps(5, journal.Admitted, "c", 1).written, []string{"maps=3"}, 0,
			"\nProject/web   shop/maps       3       3         1        ConfigMap web/b at 2026-11-01T02:00:00Z   11     11\n",
		},
		"a reopened journal without a gap changes nothing": {
			write(web).maps(1, journal.Admitted, "a", 2).maps(2, journal.Admitted, "b", 9).open(3, 0, 11, 20).
				maps(4, journal.Admitted, "c", 1).maps(5, journal.Released, "b", -9).written, []string{"maps=3"}, 0,
			"\nProject/web   shop/maps       3       3         1        ConfigMap web/b at 2026-11-01T02:00:00Z   12     12\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := Replay(t.Context(), tt.entries, ReplayOptions{Selection: window(tt.since, 24), Limits: limits(tt.limits...)})
			if err != nil {
				t.Fatal(err)
			}
			var page strings.Builder
			if err := result.Print(&page, ""); err != nil {
				t.Fatal(err)
			}
			_, got, _ := strings.Cut(page.String(), "\n")
			got, _, _ = strings.Cut(got, "\n\n")
			if got, want := strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(tt.want), " "); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// The printed need suffices as a limit, and a note informs users who may not see objects.
func TestReplayIsPrintedForUse(t *testing.T) {
	third := write(web).maps(1, journal.Admitted, "a", 1).maps(2, journal.Admitted, "b", 3)
	unnamed := third.written[1]
	unnamed.Object, unnamed.Policy = nil, ""
	result, err := Replay(t.Context(), entries{third.written[0], unnamed}, ReplayOptions{
		Selection: window(0, 24), Limits: limits("maps=2"), Units: Units{"shop/maps": usage.Unit{Name: "book", Factor: 3, Base: "map"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := result.Print(&page, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"unnamed object at 2026-11-01T02:00:00Z", "~1.333333 books   ~1.333334 books", "unnamed objects (you may not see them): 1.",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("got:\n%s\nwant %q", page.String(), want)
		}
	}
}

func TestReplayErrors(t *testing.T) {
	other := write(data).use(1, journal.Admitted, "a", "other/maps", 1)
	for name, tt := range map[string]struct {
		options ReplayOptions
		want    string
	}{
		"no limit":         {ReplayOptions{}, "name the limits to test: --limit TYPE=N"},
		"increase":         {ReplayOptions{Limits: limits("maps=+2")}, "--limit: maps=+2 is an increase; give the limit to test, such as maps=2"},
		"twice":            {ReplayOptions{Limits: limits("maps=2", "maps=3")}, "--limit: there are two limits of maps: give one"},
		"unknown type":     {ReplayOptions{Limits: limits("mops=2")}, "the journal has no entry of a resource type mops; it has those of other/maps, shop/maps"},
		"two types":        {ReplayOptions{Limits: limits("maps=2")}, "maps stands for several resource types: name one of other/maps, shop/maps"},
		"unknown consumer": {ReplayOptions{Limits: limits("shop/maps=2"), Selection: Selection{Consumer: "a/b", Since: at(1)}}, "the journal has no entry of a consumer a/b since 2026-11-01T01:00:00Z; it has those of Project/data, Project/web"},
	} {
		tt.options.Now = at(24)
		if _, err := Replay(t.Context(), slices.Concat(shop(), other.written), tt.options); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

// A limit equal to the need denies nothing, and a smaller one does.
func TestReplayOfTheNeedDeniesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawJournal(t)
		replay := func(limit int64) *Replayed {
			result, err := Replay(t.Context(), all, ReplayOptions{Selection: window(0, 24), Limits: []request.Amount{{Type: "maps", Value: limit}}})
			if err != nil {
				t.Fatal(err)
			}
			return result
		}
		var peak, needed int64
		for _, o := range replay(math.MaxInt64).Items {
			peak, needed = max(peak, o.PeakUsed), max(needed, o.Needed)
		}
		for _, limit := range []int64{peak, needed} {
			if n := replay(limit).Denied(); n > 0 {
				t.Fatalf("a limit of %d denies %d, but %d was the peak, and %d is needed", limit, n, peak, needed)
			}
		}
		if needed > 0 && replay(needed-1).Denied() == 0 {
			t.Fatalf("a limit of %d denies none, but %d is needed", needed-1, needed)
		}
	})
}

// naive replays the journal of one consumer from lists: the use of each object in the journal, and under the limit.
func naive(all entries, limit int64) (creates, denied int) {
	type object struct {
		has, would int64
		isDenied   bool
	}
	objects, base := map[string]*object{}, int64(0)
	total := func() int64 {
		sum := base
		for _, o := range objects {
			sum += o.would
		}
		return max(0, sum)
	}
	isBegun := false
	for _, e := range all {
		switch {
		case e.Kind == journal.Opened:
			used := openedLevel(e.Opening, "shop/maps").used
			actual := base
			for _, o := range objects {
				actual += o.has
			}
			if e.Opening.Lost > 0 || !isBegun || actual != used {
				objects, base = map[string]*object{}, used
			}
			isBegun = isBegun || used > 0
			continue
		case e.Kind == journal.LimitChanged:
			continue
		case !isBegun:
			base, isBegun = e.Used-e.Change, true
		}
		o := objects[e.Object.UID]
		if o == nil {
			o = &object{}
			objects[e.Object.UID] = o
		}
		o.has += e.Change
		switch {
		case o.isDenied:
		case o.has <= o.would || e.Kind == journal.Released:
			o.would = o.has
		default:
			creates++
			if total()-o.would+o.has > limit {
				denied++
				o.isDenied = e.Kind == journal.Admitted
			} else {
				o.would = o.has
			}
		}
	}
	return creates, denied
}

func TestReplayEqualsNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawJournal(t)
		limit := rapid.Int64Range(0, 15).Draw(t, "limit")
		result, err := Replay(t.Context(), all, ReplayOptions{Selection: window(0, 24), Limits: []request.Amount{{Type: "shop/maps", Value: limit}}})
		if err != nil && !strings.Contains(err.Error(), "no entry of a resource type") {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		for _, o := range result.Items {
			mine := slices.DeleteFunc(slices.Clone(all), func(e journal.Entry) bool { return e.Consumer != o.ConsumerRef })
			if creates, denied := naive(mine, limit); creates != o.Creates || denied != o.Denied {
				t.Fatalf("%s: %d of %d would have been denied, want %d of %d", o.ConsumerRef.Name, o.Denied, o.Creates, denied, creates)
			}
		}
	})
}

// BenchmarkReplay decides a million entries of a thousand consumers.
func BenchmarkReplay(b *testing.B) {
	const consumers, each = 1000, 1000
	all := make(entries, 0, consumers*each)
	for i := range consumers {
		w := write(quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Project", Name: fmt.Sprint(i)})
		for j := range each {
			hours := float64(j) / 10
			if j%3 == 2 {
				w.maps(hours, journal.Released, fmt.Sprint(j-2), -1)
			} else {
				w.maps(hours, journal.Admitted, fmt.Sprint(j), 1)
			}
		}
		all = append(all, w.written...)
	}
	b.ResetTimer()
	began := time.Now()
	for b.Loop() {
		result, err := Replay(b.Context(), all, ReplayOptions{Selection: window(0, 1000), Limits: limits("maps=200")})
		if err != nil || result.Denied() == 0 {
			b.Fatal(result, err)
		}
	}
	b.ReportMetric(float64(len(all)*b.N)/time.Since(began).Seconds(), "entries/s")
}
