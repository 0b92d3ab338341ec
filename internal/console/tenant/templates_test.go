package tenant

import (
	"log/slog"
	"net/http/httptest"
	"strings"
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
