package why

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/terminal"
	"github.com/bursar/bursar/internal/usage"
)

// Explanations are those of several objects.
type Explanations struct {
	Items []*Explanation `json:"items"`
}

// Print writes the explanations for people, with an empty line between two, or in a format. A single one is no list.
func (e *Explanations) Print(w io.Writer, format usage.Format) error {
	if format != "" && len(e.Items) != 1 {
		return usage.Encode(w, e, format)
	}
	for i, each := range e.Items {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := each.Print(w, format); err != nil {
			return err
		}
	}
	return nil
}

// Print writes an explanation for people, or in a format.
func (e *Explanation) Print(w io.Writer, format usage.Format) error {
	if format != "" {
		return usage.Encode(w, e, format)
	}
	p := &printer{terminal.Lines{Out: w}}
	p.Line("Why: %s", e.Object)
	if e.Answer != "" {
		p.Line("%s", e.Answer)
	}
	p.policies(e)
	for i := range e.Payments {
		p.payment(&e.Payments[i])
	}
	if len(e.Payments) == 0 {
		p.Line("")
		p.Line("%s", e.noPayment())
	}
	for _, note := range e.Notes {
		p.Line("")
		p.Line("%s", note)
	}
	return p.Err
}

// noPayment explains why there is no payer.
func (e *Explanation) noPayment() string {
	switch {
	case e.isUnreached:
		return "The quota that it needs is unknown until Bursar answers."
	case slices.ContainsFunc(e.Policies, func(p Policy) bool { return p.isFailed }):
		return "The quota that it needs is unknown, because a policy fails on it."
	case e.isDenied:
		return "No policy that you may read asks quota for it; the answer of the API server gives the reason."
	case e.MayNotReadPolicies:
		return "You may not read the policies, and no claim that you may see is for it: ask an administrator whether it needs quota."
	default:
		return "It needs no quota."
	}
}

// printer prints the lines and tables of an explanation.
type printer struct{ terminal.Lines }

func (p *printer) table(rows [][]string) {
	if p.Err == nil {
		p.Err = usage.PrintTable(p.Out, rows)
	}
}

func (p *printer) policies(e *Explanation) {
	if e.MayNotReadPolicies {
		return // claims and denials show the demand of the policies
	}
	if len(e.Policies) == 0 {
		return
	}
	rows := [][]string{{"POLICY", "MODE", "STATE", "MATCHES"}}
	for _, each := range e.Policies {
		rows = append(rows, []string{each.Name, each.Mode, each.State, each.Matches})
	}
	p.Line("")
	p.table(rows)
}

func (p *printer) payment(pay *Payment) {
	p.Line("")
	who := message.Consumer(pay.Consumer)
	switch {
	case pay.Claim != "":
		p.Line("%s pays, by %s: %s", who, pay.By, pay.Claim)
	case strings.HasPrefix(pay.By, "ClaimCreationPolicy "):
		p.Line("%s pays, by %s", who, pay.By)
	default:
		p.Line("%s pays", who)
	}
	if len(pay.Types) == 0 && pay.IsHidden {
		p.Line("%s", adviceOnHidden(pay))
		return
	}
	if len(pay.Types) == 0 {
		p.Line("No quota of %s is shown: nothing is granted to it, or it does not exist.", who)
		return
	}
	if pay.IsVague {
		p.Line("The error names no resource type, so all resource types of %s follow:", who)
	}
	rows := [][]string{{"RESOURCE TYPE", "ASKED", "USED", "LIMIT", "AVAILABLE", "FITS"}}
	for _, t := range pay.Types {
		rows = append(rows, []string{t.ResourceType, t.Requested, t.Used, t.Limit, t.Available, t.Fits})
	}
	p.table(rows)
	for _, t := range pay.Types {
		p.list("About "+t.ResourceType, t.about())
		p.list("Limit of "+t.ResourceType, t.Grants)
		p.list("Use of "+t.ResourceType, t.Holders)
	}
	p.advise(pay)
	if pay.Ask != "" {
		p.Line("To ask for more: %s", pay.Ask)
	}
}

// advise prints what to do about the resource types that do not fit.
func (p *printer) advise(pay *Payment) {
	var advice []string
	for _, t := range pay.Types {
		if t.Advice != "" && !slices.Contains(advice, t.Advice) {
			advice = append(advice, t.Advice)
		}
	}
	switch {
	case len(advice) == 0:
	case pay.isUnenforced():
		p.Line("What to do before the mode Enforce: %s", strings.Join(advice, " "))
	default:
		p.Line("What to do: %s", strings.Join(advice, " "))
	}
}

// about returns what people call the resource type, its meaning, and its service.
func (t *Type) about() []string {
	about := []string{t.Name, usage.OneLine(t.Description)}
	if t.Owner != "" {
		about = append(about, "part of "+t.Owner)
	}
	return slices.DeleteFunc(about, func(text string) bool { return text == "" })
}

func (p *printer) list(title string, lines []string) {
	if len(lines) > 0 {
		p.Line("%s: %s", title, strings.Join(lines, "; "))
	}
}
