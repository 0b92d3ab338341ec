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
		_, err := fmt.Fprintf(w, "ClaimCreationPolicy %s would have denied none of the %s that it charges.\n", r.Policy, message.Count(r.Objects, "object", "objects"))
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
	_, err := fmt.Fprintf(w, "\nClaimCreationPolicy %s would have denied %d of the %s that it charges.\n", r.Policy, len(r.Denied),
		message.Count(r.Objects, "object", "objects"))
	return err
}

func (d *Denied) name() string {
	if d.Object.Namespace == "" {
		return d.Object.Kind + " " + d.Object.Name
	}
	return d.Object.Kind + " " + d.Object.Namespace + "/" + d.Object.Name
}
