package policytest

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/plan"
	"github.com/bursar/bursar/internal/usage"
)

// Passed reports whether every object fits, the policies of all modes can be applied, and the API server would accept
// all objects of Bursar.
func (r *Result) Passed() bool {
	failed := func(o quotav1alpha1.ReviewedObjectResult) bool { return isFailed(&o) }
	return len(r.Rejected) == 0 && r.Status.Result == quotav1alpha1.ReviewResultFits && !slices.ContainsFunc(r.Status.Objects, failed)
}

// Print writes the result in a format.
func (r *Result) Print(w io.Writer, format usage.Format) error {
	if format == usage.FormatJSON || format == usage.FormatYAML {
		return usage.Encode(w, r, format)
	}
	for _, rejected := range r.Rejected {
		if _, err := fmt.Fprintf(w, "%s %s would be rejected: %s\n\n", rejected.Kind, rejected.Name, rejected.Reason); err != nil {
			return err
		}
	}
	rows := [][]string{{"OBJECT", "CONSUMER", "RESOURCE TYPE", "AMOUNT"}}
	for i := range r.Status.Objects {
		o := &r.Status.Objects[i]
		for j := range o.Charges {
			c := &o.Charges[j]
			rows = append(rows, []string{plan.NameOf(o), message.Consumer(c.ConsumerRef), plan.TypeOf(c), strconv.FormatInt(c.Amount, 10)})
		}
	}
	if len(rows) > 1 {
		if err := usage.PrintTable(w, rows); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	if err := plan.Print(w, r.Status, ""); err != nil || len(r.UnknownNamespaces) == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "\nThe files lack %s, so policies see only the name: add it, if a policy reads its labels or annotations.\n",
		"Namespace "+strings.Join(r.UnknownNamespaces, ", "))
	return err
}
