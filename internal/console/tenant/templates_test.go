package tenant

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/console/chart"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/manifest"
	"github.com/bursar/bursar/internal/usage"
)

// markup stands for every text that somebody else controls.
const markup = `"><script>alert(1)</script><img src=x onerror=alert(1)>`

// item has markup in every field.
func item(used, limit int64, isMetered bool) overview.Item {
	return overview.Item{
		Usage:       usage.Usage{Consumer: quotav1alpha1.ConsumerRef{Kind: markup, Name: markup}, ResourceType: markup, Used: used, Limit: limit},
		Description: overview.Description{Title: markup, Service: markup, About: markup, Owner: markup}, Consumer: markup, Reference: markup, Namespace: markup,
		UsedText: markup, LimitText: markup, LeftText: markup, OverText: markup, Percent: markup, IsMetered: isMetered,
	}
}

// Every page shows hostile texts as texts.
func TestPagesEscape(t *testing.T) {
	s := scope{Path: "/quota", Namespace: markup, Consumer: markup, Type: markup, Namespaces: []string{markup}, MaySeeAll: true, WithConsumer: true, WithType: true}
	quota := &quotaPage{scope: s, IsCut: true, Unlisted: []overview.Unlisted{{Description: overview.Description{Title: markup}, ResourceType: markup, Consumer: markup}}}
	quota.add([]overview.Item{item(1, 2, true), item(1, 0, true), item(0, 0, false)}, nil)
	quota.Services[0].Tiles[0].Ends = []end{{markup, markup, time.Now()}}
	waits := row{Kind: markup, Name: markup, Namespace: markup, Claim: markup, Consumer: markup, ConsumerURL: s.URL("/waiting"), State: stateWaiting, Message: markup, Amounts: []amount{{markup, markup, markup, s.URL("/uses")}}}
	asks := (&wish{namespace: markup, consumer: markup, reason: markup, amounts: []wished{{markup, markup}}, dimensions: map[string]string{markup: markup}}).URL()
	now := time.Now()
	for name, data := range map[string]any{
		"quota": quota,
		"trend": &trendPage{scope: s, Forbidden: markup, QuotaURL: s.URL("/quota"), Trends: []trend{{Item: item(1, 2, true), Chart: chart.Trend{Label: markup}.SVG(), Text: markup}}},
		"uses":  &usesPage{scope: s, Rows: []row{waits}, ReadMax: 1, Previous: s.URL("/uses"), Next: s.URL("/uses")},
		"waiting": &waitingPage{scope: s, IsCut: true, ReadMax: 1, Queues: []queue{{
			Consumer: markup, MayHaveOthers: true, Rows: []waitingRow{{row: waits, Short: waits.Amounts, AskURL: asks}},
		}}},
		"try": &tryPage{Namespace: markup, Namespaces: []string{markup}, Manifest: "</textarea>" + markup, Problem: markup, Invalid: []manifest.Problem{{Line: 1, Text: markup}}, Result: &result{
			Message: markup, Objects: []triedObject{{1, markup, markup, markup, markup, "over", markup, asks}}, Quotas: []triedQuota{{markup, markup, markup, markup, markup, markup, markup}},
		}},
		"history": &historyPage{scope: s, Since: markup, Times: []string{"1d", markup}, Choices: []choice{{markup, s.URL("/history")}}, Problem: markup, Gaps: []string{markup}, IsRead: true, Accounts: []pastAccount{{
			Description: overview.Description{Title: markup}, ResourceType: markup, Consumer: markup, URL: s.URL("/history"), Used: markup, Limit: markup, Peak: markup,
			LimitChanges: []limitChange{{now, markup, markup, markup, markup, markup, &now}}, Changes: []useChange{{now, markup, markup, markup, markup, markup, markup}}, LimitsOmitted: 1, ChangesOmitted: 1,
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			console, err := web.New(session.NewStore(t.Context(), "", false), slog.New(slog.DiscardHandler), Area{})
			if err != nil {
				t.Fatal(err)
			}
			recorder := httptest.NewRecorder()
			if err := console.WritePublic(recorder, web.Page{Template: name, Title: markup, Data: data, Command: command("bursar usage", "-n", markup)}); err != nil {
				t.Fatal(err)
			}
			page := recorder.Body.String()
			if !strings.Contains(page, "&lt;script&gt;alert(1)") {
				t.Errorf("the page does not show the texts:\n%s", page)
			}
			for _, bad := range []string{"<script>", "<img src", " style=", " onclick="} {
				if strings.Contains(page, bad) {
					t.Errorf("the page has %q:\n%s", bad, page)
				}
			}
		})
	}
}

// A tile names the service behind the resource type, if there is one.
func TestTileNamesTheOwner(t *testing.T) {
	for owner, want := range map[string]bool{"memory.example.com": true, "": false} {
		tile := item(1, 2, true)
		tile.Title, tile.Owner = "Memory", owner
		quota := &quotaPage{scope: scope{Path: "/quota"}}
		quota.add([]overview.Item{tile}, nil)
		console, err := web.New(session.NewStore(t.Context(), "", false), slog.New(slog.DiscardHandler), Area{})
		if err != nil {
			t.Fatal(err)
		}
		recorder := httptest.NewRecorder()
		if err := console.WritePublic(recorder, web.Page{Template: "quota", Data: quota}); err != nil {
			t.Fatal(err)
		}
		page := recorder.Body.String()
		if got := strings.Contains(page, "Part of "); got != want || !strings.Contains(page, owner) {
			t.Errorf("with the owner %q the page is:\n%s", owner, page)
		}
	}
}

// A manifest beyond the bounds is refused before anything reads it, and the answer does not repeat it.
func TestLargeManifests(t *testing.T) {
	for name, tt := range map[string]struct {
		reason     string
		bytes      int
		isRefused  bool
		isRepeated bool
	}{
		"usual":    {"people go on with what they sent", 1 << 10, false, true},
		"long":     {"a page is not as long as a manifest may be", 65 << 10, false, false},
		"too long": {"it takes a hundred times its length in memory", 257 << 10, true, false},
	} {
		p := &tryPage{Namespace: "default", Manifest: strings.Repeat("x", tt.bytes)}
		if err := p.check(); (err != nil) != tt.isRefused {
			t.Errorf("%s: %s: got %v", name, tt.reason, err)
		}
		p.answer(http.StatusOK)
		if isRepeated := len(p.Manifest) == tt.bytes; isRepeated != tt.isRepeated || p.IsLeftOut == tt.isRepeated {
			t.Errorf("%s: %s: the answer repeats %d bytes", name, tt.reason, len(p.Manifest))
		}
	}
}

// BenchmarkHostileManifests reads the costliest manifests that the page takes, 36 at once, and reports the peak of the
// heap beyond the start.
func BenchmarkHostileManifests(b *testing.B) {
	var keys strings.Builder
	for i := 0; keys.Len() < manifestBytesMax-20; i++ {
		fmt.Fprintf(&keys, "k%d,", i)
	}
	t, text := newTrial(), "{"+keys.String()+"}"
	inUse := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	heap := func() uint64 { metrics.Read(inUse); return inUse[0].Value.Uint64() + inUse[1].Value.Uint64() }
	runtime.GC()
	before, peak := heap(), uint64(0)
	for b.Loop() {
		var group sync.WaitGroup
		for range 36 {
			group.Go(func() {
				p := &tryPage{Namespace: "default", Manifest: text}
				if _, err := t.read(b.Context(), p); err != nil {
					b.Error(err)
				}
			})
		}
		done := make(chan struct{})
		go func() { group.Wait(); close(done) }()
		for isDone := false; !isDone; {
			peak = max(peak, heap())
			select {
			case <-done:
				isDone = true
			case <-time.After(time.Millisecond):
			}
		}
	}
	b.ReportMetric(float64(peak-min(before, peak))/(1<<20), "peak-MiB")
}
