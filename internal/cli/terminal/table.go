package terminal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// gapWide is the space between columns, as in kubectl, and gapNarrow that of tables that would not fit otherwise.
	gapWide, gapNarrow = 3, 2
	// cellMin is the smallest width of a shortened cell.
	cellMin = 10
	// barWidth is the width of a bar.
	barWidth = 10
)

// branches are the characters of trees at the beginning of cells.
const branches = "├└│─|`- "

// These columns mean the same in all tables: a part in percent, a state, and a result.
const (
	utilization = "UTILIZATION"
	state       = "STATE"
	result      = "RESULT"
)

// Table implements the optional part of a writer for usage.PrintTable. It prints rows; the first one names the columns.
// It reports false for a writer without a terminal, and leaves the table to others.
func (p *Page) Table(rows [][]string) bool {
	if !p.style.IsTerminal() || len(rows) == 0 {
		return false
	}
	p.text.WriteString(p.style.Table(rows))
	return true
}

// Table returns rows as text. It shortens cells too long for the terminal.
func (s Style) Table(rows [][]string) string {
	widths, gap := widthsOf(rows), gapWide
	bars := s.HasBars && slices.Contains(rows[0], utilization) && total(widths, gap)+1+barWidth <= s.Width
	if s.Width > 0 && total(widths, gap) > s.Width {
		if cut := fit(rows[0], widths, s.Width); cut != nil {
			widths, gap = cut, gapNarrow
		}
	}
	var text strings.Builder
	for at, row := range rows {
		line := ""
		for i, cell := range row {
			shown := s.cut(cell, widths[i])
			padding := widths[i] - utf8.RuneCountInString(shown)
			if at > 0 {
				shown = s.paint(rows[0][i], cell, shown)
			}
			line += shown + strings.Repeat(" ", padding)
			if bars && rows[0][i] == utilization {
				line += " " + s.barIf(at > 0, cell)
			}
			if i < len(row)-1 {
				line += strings.Repeat(" ", gap)
			}
		}
		text.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return text.String()
}

func widthsOf(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

func total(widths []int, gap int) int {
	sum := gap * (len(widths) - 1)
	for _, width := range widths {
		sum += width
	}
	return sum
}

// uncut are columns with cells that mean nothing without their ends.
var uncut = []string{"TIME", "UNTIL", "CLAIMED"}

// description is a column that identifies nothing, so it becomes narrower before all others.
const description = "DESCRIPTION"

// fit makes the widest columns narrower until all fit, with narrow gaps. It returns nil if this is impossible: the
// lines of the terminal break anyway, so there is no reason to shorten cells.
func fit(columns []string, widths []int, width int) []int {
	cut := slices.Clone(widths)
	described := slices.Index(columns, description)
	for total(cut, gapNarrow) > width {
		if described >= 0 && cut[described] > cellMin {
			cut[described]--
			continue
		}
		widest := -1
		for i := range cut {
			if !slices.Contains(uncut, columns[i]) && (widest < 0 || cut[i] > cut[widest]) {
				widest = i
			}
		}
		if widest < 0 || cut[widest] <= cellMin {
			return nil
		}
		cut[widest]--
	}
	return cut
}

// cut shortens a cell. It keeps the end of a path, and the beginning of any other text, because these distinguish it
// most.
func (s Style) cut(cell string, width int) string {
	runes, dots := []rune(cell), []rune("…")
	if s.IsASCII {
		dots = []rune("..")
	}
	path := strings.TrimLeft(cell, branches)
	switch {
	case len(runes) <= width:
		return cell
	case strings.Contains(path, "/") && !strings.Contains(path, " "):
		head := cell[:len(cell)-len(path)]
		from := len(runes) - width + utf8.RuneCountInString(head) + len(dots)
		return head + string(dots) + string(runes[min(from, len(runes)):])
	default:
		return string(runes[:width-len(dots)]) + string(dots)
	}
}

// parsePercent returns the number of a percentage.
func parsePercent(cell string) (float64, bool) {
	number, isPercent := strings.CutSuffix(cell, "%")
	value, err := strconv.ParseFloat(strings.TrimPrefix(number, "<"), 64)
	return value, isPercent && err == nil
}

func (s Style) barIf(isBody bool, cell string) string {
	value, ok := parsePercent(cell)
	if !isBody || !ok {
		return strings.Repeat(" ", barWidth)
	}
	return s.color(colorOf(value), s.Bar(value))
}

// Bar draws a percentage.
func (s Style) Bar(percent float64) string {
	full, empty := "█", "░"
	if s.IsASCII {
		full, empty = "#", "."
	}
	filled := min(max(int(percent*barWidth/100), 0), barWidth)
	if percent > 0 && filled == 0 {
		filled = 1
	}
	return strings.Repeat(full, filled) + strings.Repeat(empty, barWidth-filled)
}

// From these percentages on, a limit is near, or reached.
const (
	near = 80
	full = 100
)

// These are the colours of a terminal, by meaning.
const (
	plain = ""
	good  = "32"
	warns = "33"
	bad   = "31"
)

func colorOf(percent float64) string {
	switch {
	case percent >= full:
		return bad
	case percent >= near:
		return warns
	default:
		return good
	}
}

// stateColors are the colours of states. Others are plain.
var stateColors = map[string]string{
	"Granted": good, "Approved": good, "PartiallyApproved": good, "ok": good, "Fits": good,
	"Pending": warns, "QuotaExceeded": warns, "unknown": warns, "Unknown": warns,
	"Denied": bad, "FAILED": bad, "DoesNotFit": bad,
}

// paint colours a cell by its column.
func (s Style) paint(column, cell, shown string) string {
	switch column {
	case utilization:
		value, ok := parsePercent(cell)
		switch {
		case ok:
			return s.color(colorOf(value), shown)
		case cell == "" || cell == "-":
			return shown
		default:
			return s.color(bad, shown) // use without a limit
		}
	case state, result:
		return s.color(stateColors[cell], shown)
	default:
		return shown
	}
}

func (s Style) color(code, text string) string {
	if !s.HasColor || code == plain {
		return text
	}
	return fmt.Sprintf("\x1b[%sm%s\x1b[0m", code, text)
}
