package backtest

import (
	"fmt"
	"io"
	"time"

	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/usage"
)

// Print writes the result in a format.
func (r *Result) Print(w io.Writer, format usage.Format) error {
	if format == usage.FormatJSON || format == usage.FormatYAML {
		return usage.Encode(w, r, format)
	}
	if len(r.Denied) == 0 {
		_, err := fmt.Fprintf(w, "ClaimCreationPolicy %s %s.%s\n", r.Policy, Outcome(0, r.Objects), r.omission())
		return err
	}
	rows := [][]string{{"OBJECT", "CLAIMED", "CONSUMER", "RESOURCE TYPE", "REQUESTED", "USED", "LIMIT"}}
	for i := range r.Denied {
		d := &r.Denied[i]
		unit := r.types.unit(d.ResourceType)
		rows = append(rows, []string{
			d.name(), d.ClaimedAt.UTC().Format(time.RFC3339), message.Consumer(d.ConsumerRef), d.ResourceType,
			unit.Amount(d.Requested), unit.Amount(d.Used), unit.Amount(d.Limit),
		})
	}
	if err := usage.PrintTable(w, rows); err != nil {
		return err
	}
	rows = [][]string{{"CONSUMER", "RESOURCE TYPE", "LIMIT", "NEEDED"}}
	for i := range r.Lacking {
		l := &r.Lacking[i]
		unit := r.types.unit(l.ResourceType)
		rows = append(rows, []string{message.Consumer(l.ConsumerRef), l.ResourceType, unit.Amount(l.Limit), unit.AmountUp(l.Needed)})
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := usage.PrintTable(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nClaimCreationPolicy %s %s.%s\n", r.Policy, Outcome(len(r.Denied), r.Objects), r.omission())
	return err
}

// omission says which objects the answer leaves out, or nothing.
func (r *Result) omission() string {
	if r.NotApplicable == 0 {
		return ""
	}
	return fmt.Sprintf(" It cannot be applied to %s, which the answer leaves out.", message.Count(r.NotApplicable, "more object", "more objects"))
}

// Outcome says how many of its charged objects a policy would have denied. The policy is the subject of the sentence.
func Outcome(denied, objects int) string {
	switch {
	case objects == 1 && denied == 0:
		return "would not have denied the only object that it charges"
	case objects == 1:
		return "would have denied the only object that it charges"
	case denied == 0:
		return fmt.Sprintf("would have denied none of the %d objects that it charges", objects)
	default:
		return fmt.Sprintf("would have denied %d of the %d objects that it charges", denied, objects)
	}
}

func (d *Denied) name() string {
	if d.Object.Namespace == "" {
		return d.Object.Kind + " " + d.Object.Name
	}
	return d.Object.Kind + " " + d.Object.Namespace + "/" + d.Object.Name
}
