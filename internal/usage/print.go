package usage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"

	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
)

// Format is the format of a report. The zero value is a table.
type Format string

// The formats besides the table.
const (
	FormatWide Format = "wide"
	FormatJSON Format = "json"
	FormatYAML Format = "yaml"
)

// IsEmpty reports whether there is nothing to print.
func (r *Report) IsEmpty() bool {
	if r.withClaims {
		return len(r.Claims)+len(r.Increases) == 0
	}
	return len(r.Items)+len(r.Increases) == 0
}

// Encode writes an object as JSON or YAML.
func Encode(w io.Writer, object any, format Format) error {
	if format == FormatJSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "    ")
		return encoder.Encode(object)
	}
	encoded, err := yaml.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode %T: %w", object, err)
	}
	_, err = w.Write(encoded)
	return err
}

// Print writes the report.
func (r *Report) Print(w io.Writer, format Format) error {
	if format == FormatJSON || format == FormatYAML {
		return Encode(w, r, format)
	}
	return r.printTables(w, format == FormatWide)
}

// printTables prints each non-empty table, after an empty line except for the first.
func (r *Report) printTables(w io.Writer, isWide bool) error {
	tables := [][][]string{r.itemRows(isWide)}
	if r.withClaims {
		tables = [][][]string{claimRows(r.Claims)}
	}
	tables = append(tables, increaseRows(r.Increases))
	isFirst := true
	for _, rows := range tables {
		if len(rows) <= 1 {
			continue
		}
		if !isFirst {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		isFirst = false
		if err := PrintTable(w, rows); err != nil {
			return err
		}
	}
	for i, note := range r.Notes {
		if i == 0 && !isFirst {
			note = "\n" + note
		}
		if _, err := fmt.Fprintln(w, note); err != nil {
			return err
		}
	}
	return nil
}

// tabler is a writer with tables of its own, such as a terminal. It returns false if it prints none now.
type tabler interface {
	Table(rows [][]string) bool
}

// PrintTable prints rows as kubectl does, unless the writer has tables of its own. The first row holds the names of the
// columns. It cleans all cells before it measures them, see [message.Clean].
func PrintTable(w io.Writer, rows [][]string) error {
	for _, row := range rows {
		for i := range row {
			row[i] = message.Clean(row[i])
		}
	}
	if own, ok := w.(tabler); ok && own.Table(rows) {
		return nil
	}
	widths := paddedWidths(rows)
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s%*s", widths[i], cell, columnGap, "")
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

const (
	// columnMin and columnGap are the least width of a column and the space after it, as in kubectl.
	columnMin, columnGap = 3, 3
	// columnMax is the largest width that all rows are padded to. A name may have 253 characters: it moves the rest of its
	// own row, and not that of all others.
	columnMax = 64
)

// paddedWidths returns the widths to which cells are padded.
func paddedWidths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, columnMin)
			}
			if width := utf8.RuneCountInString(cell); width <= columnMax {
				widths[i] = max(widths[i], width)
			}
		}
	}
	return widths
}

func (r *Report) itemRows(isWide bool) [][]string {
	columns := []string{"CONSUMER", "RESOURCE TYPE", "USED", "LIMIT", "AVAILABLE", "UTILIZATION", "WAITING"}
	isHeld := slices.ContainsFunc(r.Items, func(i Item) bool { return i.Held > 0 })
	if isHeld {
		columns = append(columns, "HELD")
	}
	if isWide {
		columns = append(columns, "GROUP", "USED (BASE)", "LIMIT (BASE)", "NAME", "OWNER", "DESCRIPTION")
	}
	rows := [][]string{columns}
	for _, i := range r.Items {
		display := i.Display
		if display == nil {
			display = &quotav1alpha1.DisplayedQuota{TotalAllocated: fmt.Sprint(i.Used), TotalLimit: fmt.Sprint(i.Limit), Available: fmt.Sprint(i.Available)}
		}
		waiting := "-"
		if i.Waiting != nil {
			waiting = fmt.Sprint(*i.Waiting)
		}
		row := []string{NameOf(i.ConsumerRef), i.ResourceType, display.TotalAllocated, display.TotalLimit, display.Available, i.Percent(), waiting}
		if isHeld {
			row = append(row, i.heldAmount())
		}
		if isWide {
			row = append(row, i.ConsumerRef.APIGroup, fmt.Sprint(i.Used), fmt.Sprint(i.Limit),
				cmp.Or(OneLine(display.Name), "-"), cmp.Or(display.Owner, "-"), cmp.Or(cut(OneLine(display.Description)), "-"))
		}
		rows = append(rows, row)
	}
	return rows
}

// OneLine returns a text as one line, clean for a terminal, see [message.Clean]: users write some texts.
func OneLine(text string) string { return message.Clean(strings.Join(strings.Fields(text), " ")) }

// descriptionCharactersMax bounds a description in a table.
const descriptionCharactersMax = 80

func cut(text string) string {
	if characters := []rune(text); len(characters) > descriptionCharactersMax {
		return string(characters[:descriptionCharactersMax-1]) + "…"
	}
	return text
}

// NameOf names a consumer as Kind/name, after its namespace if it has one.
func NameOf(consumer quotav1alpha1.ConsumerRef) string {
	if consumer.Namespace != "" {
		return consumer.Namespace + "/" + consumer.Kind + "/" + consumer.Name
	}
	return consumer.Kind + "/" + consumer.Name
}

// Amounts returns the usage and the limit, in display units if they are known.
func (i Item) Amounts() (used, limit string) {
	if i.Display == nil {
		return fmt.Sprint(i.Used), fmt.Sprint(i.Limit)
	}
	return i.Display.TotalAllocated, i.Display.TotalLimit
}

// heldAmount returns what overdue requests hold, in display units if they are known.
func (i Item) heldAmount() string {
	if i.Display != nil && i.Display.Held != "" {
		return i.Display.Held
	}
	return fmt.Sprint(i.Held)
}

// Percent formats the used part of the limit. A feature has none.
func (i Item) Percent() string {
	if i.Feature != "" {
		return "-"
	}
	return percent(i.Used, i.Limit)
}

func percent(used, limit int64) string {
	if used > 0 && limit == 0 {
		return "nothing granted"
	}
	return message.Percent(ledger.Amount(used), ledger.Amount(limit))
}
