package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// check wants well-formed XML with some texts.
func check(t *testing.T, reason, svg string, texts ...string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v in %s", reason, err, svg)
		}
	}
	for _, text := range texts {
		if !strings.Contains(svg, text) {
			t.Errorf("%s: no %q in %s", reason, text, svg)
		}
	}
}

func TestBar(t *testing.T) {
	for name, tt := range map[string]struct {
		reason      string
		used, limit int64
		want        []string
	}{
		"Empty":   {"nothing is used", 0, 10, []string{`class="used" width="0"`}},
		"Nothing": {"nothing is granted or used", 0, 0, []string{`class="used" width="0"`}},
		"Part":    {"a third is used", 1, 3, []string{`class="used" width="33.33"`}},
		"Near":    {"80% are near the limit", 8, 10, []string{`class="used is-near" width="80"`}},
		"Full":    {"all is used", 10, 10, []string{`class="used is-over" width="100"`}},
		"Over":    {"twice the limit is used", 20, 10, []string{`class="used is-over" width="100"`, `x1="50"`}},
		"NoLimit": {"something is used without a limit", 1, 0, []string{`class="used is-over" width="100"`}},
		"Large":   {"the largest numbers", math.MaxInt64, math.MaxInt64, []string{`width="100"`}},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, tt.reason, string(Bar(tt.used, tt.limit, "label")), append(tt.want, `aria-label="label"`)...)
		})
	}
}

func TestTrend(t *testing.T) {
	trend := Trend{Used: []float64{0, 5}, Limit: []float64{10, 10}, Gaps: []Span{{-1, 0.5}}, Label: "maps"}
	check(t, "use and limit are steps of the columns", string(trend.SVG()), `class="limit" points="0,1 240,1"`,
		`class="line" points="0,59 120,59 120,30 240,30"`, `class="gap" x="0" width="120"`)
	check(t, "no values", string(Trend{}.SVG()), `points=""`)
	check(t, "no numbers", string(Trend{Used: []float64{math.NaN(), math.Inf(1)}, Limit: []float64{1, 1}}.SVG()), `class="line"`)
}

// A label is hostile.
func TestLabelsAreEscaped(t *testing.T) {
	const label = `"><script>alert(1)</script>`
	for _, svg := range []string{string(Bar(1, 2, label)), string(Trend{Label: label}.SVG())} {
		if strings.Contains(svg, "<script") {
			t.Errorf("the label is markup in %s", svg)
		}
		check(t, "markup in a label", svg)
	}
}
