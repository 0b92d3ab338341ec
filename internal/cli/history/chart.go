package history

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"

	"github.com/bursar/bursar/internal/usage"
)

const (
	// chartRows is the approximate number of rows of a chart above the row of 0.
	chartRows = 8
	// columnsMin is how many columns a chart has at least, without its labels.
	columnsMin = 20
	// chartTime is the form of the times below a chart.
	chartTime = "2006-01-02 15:04"
	// digitsMax is how many significant digits a label has.
	digitsMax = 3
)

// Style is the style of charts.
type Style struct {
	// Width is the width of the terminal, in columns.
	Width int
	// IsASCII avoids all other characters.
	IsASCII bool
}

// The limit is a double line, and the use a single one, so no chart needs color.
var (
	limitLine = asciigraph.CharSet{
		Horizontal: "═", VerticalLine: "║", ArcDownRight: "╔", ArcDownLeft: "╗", ArcUpRight: "╚", ArcUpLeft: "╝",
	}
	usedLine       = asciigraph.DefaultCharSet
	limitLineASCII = asciigraph.CharSet{
		Horizontal: "=", VerticalLine: "#", ArcDownRight: "#", ArcDownLeft: "#", ArcUpRight: "#", ArcUpLeft: "#",
	}
	usedLineASCII = asciigraph.CharSet{
		Horizontal: "-", VerticalLine: "|", ArcDownRight: "+", ArcDownLeft: "+", ArcUpRight: "+", ArcUpLeft: "+",
	}
	toASCII = strings.NewReplacer("┤", "|", "┼", "+", "─", "-", "═", "=")
)

// chart draws the levels of an account. It is empty if they are all 0.
func (a *Account) chart(unit usage.Unit, style Style) string {
	largest := float64(0)
	for _, l := range a.levels {
		largest = max(largest, float64(l.used), float64(l.limit))
	}
	if largest == 0 {
		return ""
	}
	factor := float64(max(unit.Factor, 1))
	rows := rowsOf(largest / factor)
	digits := digitsOf(largest / factor / float64(rows))
	label := func(value float64) string { return labelOf(value/factor, digits) }
	labelWidth := 0
	for i := range rows + 1 {
		labelWidth = max(labelWidth, len(label(largest*float64(i)/float64(rows))))
	}
	indent := labelWidth + 2
	columns := max(columnsMin, style.Width-indent-1)
	used, limit := a.Samples(columns)
	lines := []asciigraph.CharSet{limitLine, usedLine}
	if style.IsASCII {
		lines = []asciigraph.CharSet{limitLineASCII, usedLineASCII}
	}
	drawn := asciigraph.PlotMany([][]float64{limit, used},
		asciigraph.Height(rows), asciigraph.LowerBound(0), asciigraph.UpperBound(largest), asciigraph.Offset(2), // of labels and axis
		asciigraph.YAxisValueFormatter(label), asciigraph.SeriesChars(lines...))
	text := drawn + "\n" + strings.Repeat(" ", indent) + span(a.From, a.Until, columns) + "\n"
	if style.IsASCII {
		text = toASCII.Replace(text)
	}
	return text
}

// rowsOf returns the number of rows of a chart up to a number. A small number has few rows. Otherwise labels are whole
// numbers if possible.
func rowsOf(largest float64) int {
	if whole := math.Trunc(largest); whole == largest && whole < chartRows {
		return int(whole)
	}
	for _, rows := range []int{chartRows, chartRows - 1, chartRows - 2, chartRows + 1, chartRows + 2, chartRows - 3} {
		if math.Mod(largest, float64(rows)) == 0 {
			return rows
		}
	}
	return chartRows
}

// Samples returns the largest use and the largest limit in each column. One more column ends the line.
func (a *Account) Samples(columns int) (used, limit []float64) {
	used, limit = make([]float64, columns+1), make([]float64, columns+1)
	length := a.Until.Sub(a.From)
	column := func(t time.Time) int {
		if length <= 0 || !t.Before(a.Until) {
			return columns - 1
		}
		return max(0, min(columns-1, int(float64(columns)*float64(t.Sub(a.From))/float64(length))))
	}
	raise := func(i int, l level) {
		used[i], limit[i] = max(used[i], float64(l.used)), max(limit[i], float64(l.limit))
	}
	for i := range a.levels {
		last := columns // the level holds to the end
		if i+1 < len(a.levels) {
			last = column(a.levels[i+1].time)
		}
		first := column(a.levels[i].time)
		for c := first; c <= max(first, last); c++ {
			raise(c, a.levels[i].level)
		}
	}
	return used, limit
}

// span writes the window below a chart.
func span(from, until time.Time, columns int) string {
	left, right := from.UTC().Format(chartTime), until.UTC().Format(chartTime)+" UTC"
	return left + strings.Repeat(" ", max(1, columns-len(left)-len(right))) + right
}

// digitsOf returns the number of digits after the point needed to distinguish rows one step apart.
func digitsOf(step float64) int {
	if step >= 1 {
		return 0
	}
	return min(digitsMax, int(math.Ceil(-math.Log10(step))))
}

// labelOf writes a number with a prefix of the SI if it is large: 1500000 as 1.5M.
func labelOf(value float64, digits int) string {
	const thousand = 1000
	if value < 100*thousand {
		return strconv.FormatFloat(value, 'f', digits, 64)
	}
	prefix := ""
	for _, next := range []string{"k", "M", "G", "T", "P", "E"} {
		if value < thousand {
			break
		}
		value, prefix = value/thousand, next
	}
	return strconv.FormatFloat(value, 'g', digitsMax, 64) + prefix
}
