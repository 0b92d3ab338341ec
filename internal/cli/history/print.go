package history

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/usage"
)

// unknown stands for a text missing from the journal.
const unknown = "-"

// Print writes the report in a format.
func (r *Report) Print(w io.Writer, format usage.Format) error {
	switch {
	case format == usage.FormatJSON || format == usage.FormatYAML:
		return usage.Encode(w, r, format)
	case r.IsEmpty():
		return nil
	}
	if err := r.printItems(w); err != nil {
		return err
	}
	lines := []string{""}
	for i := range r.Gaps {
		lines = append(lines, r.Gaps[i].Text())
	}
	if !r.since.IsZero() {
		lines = append(lines, fmt.Sprintf("Resource types without a change since %s are left out; --resource-type TYPE shows one of them.", inUTC(r.since)))
	}
	if len(lines) == 1 {
		return nil
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

func (r *Report) printItems(w io.Writer) error {
	if r.onlyLimits {
		return r.printLimits(w)
	}
	for i := range r.Items {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := r.Items[i].print(w, r.units[r.Items[i].ResourceType], r.style); err != nil {
			return err
		}
	}
	return nil
}

// printLimits writes a table of all changes of limits, newest last.
func (r *Report) printLimits(w io.Writer) error {
	type row struct {
		time time.Time
		text []string
	}
	var rows []row
	for i := range r.Items {
		a := &r.Items[i]
		unit := r.units[a.ResourceType]
		for _, c := range a.LimitChanges {
			grant := cmp.Or(printable(c.Grant), unknown)
			if c.Since != nil {
				grant = "a gap in the journal since " + inUTC(*c.Since)
			}
			rows = append(rows, row{c.Time, []string{
				inUTC(c.Time), nameOf(a.ConsumerRef), printable(a.ResourceType), unit.Amount(c.From), unit.Amount(c.To), grant, cmp.Or(printable(c.Actor), unknown),
			}})
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return a.time.Compare(b.time) })
	table := [][]string{{"TIME", "CONSUMER", "RESOURCE TYPE", "FROM", "TO", "GRANT", "CHANGED BY"}}
	for _, row := range rows {
		table = append(table, row.text)
	}
	return usage.PrintTable(w, table)
}

// print writes the history of an account: a chart, the changes of its limit, and the latest changes of use.
func (a *Account) print(w io.Writer, unit usage.Unit, style Style) error {
	var page strings.Builder
	head := "%s of %s: used %s of %s, at most %s"
	fmt.Fprintf(&page, head, printable(a.ResourceType), nameOf(a.ConsumerRef), unit.Amount(a.Used), unit.Amount(a.Limit), unit.Amount(a.PeakUsed))
	if chart := a.chart(unit, style); chart != "" {
		legend := "  (─ used, ═ limit"
		if unit.Name != "" {
			legend += ", unit: " + unit.Name
		}
		if style.IsASCII {
			legend = toASCII.Replace(legend)
		}
		page.WriteString(legend + ")\n" + chart)
	} else {
		page.WriteString("\n")
	}
	page.WriteString("\n")
	if len(a.LimitChanges) == 0 {
		fmt.Fprintf(&page, "The limit did not change from %s to %s.\n", inUTC(a.From), inUTC(a.Until))
	}
	for i := range a.LimitChanges {
		page.WriteString(a.LimitChanges[i].text(unit) + "\n")
	}
	if _, err := io.WriteString(w, page.String()); err != nil || len(a.Changes) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w, a.omitted()); err != nil {
		return err
	}
	return usage.PrintTable(w, a.rows(unit))
}

func (a *Account) omitted() string {
	if a.ChangesOmitted == 0 {
		return ""
	}
	return fmt.Sprintf("\nThe latest changes of use; %d before them are left out, and --changes 0 shows all:", a.ChangesOmitted)
}

// text writes a change of a limit in words.
func (c *LimitChange) text(unit usage.Unit) string {
	verb := "raised"
	if c.To < c.From {
		verb = "lowered"
	}
	text := fmt.Sprintf("%s  The limit was %s from %s to %s", inUTC(c.Time), verb, unit.Amount(c.From), unit.Amount(c.To))
	switch {
	case c.Since != nil:
		return text + fmt.Sprintf(" after %s: the journal has a gap.", inUTC(*c.Since))
	case c.Actor != "":
		text += " by " + printable(c.Actor)
	}
	if c.Grant != "" {
		text += ", in ResourceGrant " + printable(c.Grant)
	}
	if c.Actor == "" {
		text += "; the author is not recorded, or not shown to you"
	}
	return text + "."
}

// rows are the changes of use.
func (a *Account) rows(unit usage.Unit) [][]string {
	rows := [][]string{{"TIME", "EVENT", "OBJECT", "CHANGE", "USED/LIMIT", "ACTOR"}}
	for i := range a.Changes {
		c := &a.Changes[i]
		rows = append(rows, []string{
			inUTC(c.Time), printable(string(c.Kind)), printable(c.ObjectText()), Signed(unit, c.Change), unit.Amount(c.Used) + "/" + unit.Amount(c.Limit),
			cmp.Or(printable(c.Actor), unknown),
		})
	}
	return rows
}

// ObjectText names the charged object or claim, with the dimensions of the change.
func (c *Change) ObjectText() string {
	text := c.Claim
	if c.Object != nil {
		text = objectName(c.Object)
	} else if c.Claim != "" {
		text = "ResourceClaim " + c.Claim
	}
	if len(c.Dimensions) > 0 {
		text = strings.TrimSpace(text + " (" + message.Dimensions(c.Dimensions) + ")")
	}
	if c.Lost > 0 {
		text = message.Count(c.Lost, "entry before it is lost", "entries before it are lost")
	}
	return cmp.Or(text, unknown)
}

func objectName(o *journal.Object) string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// printable returns a text of the journal without characters that would change a terminal.
func printable(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

// Print writes the outcome of a replay in a format.
func (r *Replayed) Print(w io.Writer, format usage.Format) error {
	switch {
	case format == usage.FormatJSON || format == usage.FormatYAML:
		return usage.Encode(w, r, format)
	case r.IsEmpty():
		return nil
	}
	rows := [][]string{{"CONSUMER", "RESOURCE TYPE", "LIMIT", "CREATES", "DENIED", "FIRST DENIED", "PEAK", "NEEDED"}}
	creates, gaps, unnamed := 0, 0, 0
	for i := range r.Items {
		o := &r.Items[i]
		unit := r.units[o.ResourceType]
		creates, gaps, unnamed = creates+o.Creates, gaps+o.Gaps, unnamed+o.Unnamed
		rows = append(rows, []string{
			nameOf(o.ConsumerRef), printable(o.ResourceType), unit.Amount(o.Limit), strconv.Itoa(o.Creates), strconv.Itoa(o.Denied), o.First.text(),
			unit.Amount(o.PeakUsed), unit.AmountUp(o.Needed),
		})
	}
	if err := usage.PrintTable(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nThese limits would have denied %d of %d creates. NEEDED is the smallest limit that denies none.\n", r.Denied(), creates)
	if gaps > 0 && err == nil {
		_, err = fmt.Fprintf(w, "Gaps in the journal: %d. After each, all use counts, also of objects that would have been denied.\n", gaps)
	}
	if unnamed > 0 && err == nil {
		_, err = fmt.Fprintf(w, "Creates of unnamed objects (you may not see them): %d. It is unknown how much their deletion freed, so the counts may be wrong.\n", unnamed)
	}
	return err
}

// text names a denial, for a table.
func (d *Denial) text() string {
	if d == nil {
		return unknown
	}
	text := "unnamed object"
	switch {
	case d.Object != nil:
		text = objectName(d.Object)
	case d.Claim != "":
		text = "ResourceClaim " + d.Claim
	}
	return printable(text) + " at " + inUTC(d.Time)
}
