// Package chart draws the charts of the console as SVG. Its functions are pure. Drawings consist of numbers and of
// labels escaped by the template. Only areas of the console import it.
package chart

import (
	"html/template"
	"math"
	"strconv"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/usage"
)

const (
	// width and height are the size of a drawing. The style sheet scales it.
	width, height = 240, 60
	barWidth      = 100
	// margin keeps lines at the edges visible.
	margin = 1
)

var barDrawing = template.Must(template.New("bar").Parse(
	`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" height="12" role="img" aria-label="{{.Label}}">` +
		`<rect class="track" width="100" height="8"></rect>` +
		`<rect class="used{{.Class}}" width="{{.Used}}" height="8"></rect>` +
		`{{with .Mark}}<line class="limit" x1="{{.}}" x2="{{.}}" y1="0" y2="8"></line>{{end}}</svg>`))

var trendDrawing = template.Must(template.New("trend").Parse(
	`<svg class="trend" viewBox="0 0 240 60" preserveAspectRatio="none" height="60" role="img" aria-label="{{.Label}}">` +
		`{{range .Gaps}}<rect class="gap" x="{{.X}}" width="{{.Width}}" height="60"></rect>{{end}}` +
		`<polyline class="limit" points="{{.Limit}}"></polyline><polyline class="line" points="{{.Used}}"></polyline></svg>`))

// draw executes a template.
func draw(drawing *template.Template, data any) template.HTML {
	var text strings.Builder
	if err := drawing.Execute(&text, data); err != nil {
		panic(err) // the templates are constant, and fit their data
	}
	return template.HTML(text.String()) //nolint:gosec // the template has escaped it
}

// Bar draws the used part of a limit. Use beyond the limit fills the bar, and a mark shows where the limit is. The
// label describes the same to people who do not see the drawing.
func Bar(used, limit int64, label string) template.HTML {
	bar := struct{ Label, Class, Used, Mark string }{Label: label}
	u := usage.Usage{Used: max(used, 0), Limit: limit}
	part := u.Ratio()
	if limit > 0 && part > 1 {
		bar.Mark = number(barWidth / part)
	}
	switch u.Level(usage.Below, quotav1alpha1.AlertThresholdDefault) {
	case usage.Exceeded, usage.Reached:
		bar.Class = " is-over"
	case usage.Near:
		bar.Class = " is-near"
	}
	bar.Used = number(barWidth * min(part, 1))
	return draw(barDrawing, bar)
}

// Word returns the meaning of a bar's color, or nothing far from the limit.
func Word(level usage.Level) string {
	switch level {
	case usage.Exceeded:
		return "over limit"
	case usage.Reached:
		return "limit reached"
	case usage.Near:
		return "near limit"
	default:
		return ""
	}
}

// Span is a part of the width of a chart: from 0 at its left to 1 at its right.
type Span struct{ From, To float64 }

// Trend is the use and the limit over time. Both have a value for each of the same number of columns.
type Trend struct {
	Used, Limit []float64
	// Gaps are times with unknown use and limit.
	Gaps []Span
	// Label describes the chart to people who do not see it.
	Label string
}

// SVG draws the trend: the use as a line, and the limit as a dashed one.
func (t Trend) SVG() template.HTML {
	largest := 1.0
	for _, values := range [][]float64{t.Used, t.Limit} {
		for _, value := range values {
			largest = max(largest, value)
		}
	}
	type gap struct{ X, Width string }
	drawing := struct {
		Label, Used, Limit string
		Gaps               []gap
	}{Label: t.Label, Used: steps(t.Used, largest), Limit: steps(t.Limit, largest)}
	for _, span := range t.Gaps {
		from, to := min(max(span.From, 0), 1), min(max(span.To, 0), 1)
		drawing.Gaps = append(drawing.Gaps, gap{number(width * from), number(max(width*(to-from), margin))})
	}
	return draw(trendDrawing, drawing)
}

// steps returns the points of a line that holds each value for a column: two for each run of equal values.
func steps(values []float64, largest float64) string {
	var points []string
	for i, value := range values {
		y := number(height - margin - (height-2*margin)*max(value, 0)/largest)
		left, right := number(width*float64(i)/float64(len(values))), number(width*float64(i+1)/float64(len(values)))
		if i > 0 && values[i-1] == value {
			points[len(points)-1] = right + "," + y
			continue
		}
		points = append(points, left+","+y, right+","+y)
	}
	return strings.Join(points, " ")
}

// number writes a number for SVG, with two digits after the point at most.
func number(value float64) string {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return "0"
	}
	return strconv.FormatFloat(math.Round(value*100)/100, 'f', -1, 64)
}
