package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/usage"
)

// Measure is the value that ranks movers: their use or their limit.
type Measure string

// The measures.
const (
	ByUse   Measure = "use"
	ByLimit Measure = "limit"
)

// TopOptions are those of [ReadTop].
type TopOptions struct {
	Selection
	// By is the value to compare.
	By Measure
	// Max bounds the movers.
	Max   int
	Units Units
}

// Check returns an error for invalid options.
func (o *TopOptions) Check() error {
	switch {
	case o.By != ByUse && o.By != ByLimit:
		return fmt.Errorf("--by: there is no order %q; choose use or limit", string(o.By))
	case o.Max < 1:
		return errors.New("--number: give a number of 1 or more")
	default:
		return o.Selection.Check()
	}
}

// Top are the accounts with the largest changes of use or limit, the largest first.
type Top struct {
	By    Measure `json:"by"`
	Items []Mover `json:"items"`
	units Units
}

// Mover is an account with a change in the window. Amounts are in base units.
type Mover struct {
	ConsumerRef  quotav1alpha1.ConsumerRef `json:"consumerRef"`
	ResourceType string                    `json:"resourceType"`
	// Change is from the start to the end of the window.
	Change int64 `json:"change"`
	// Before is the use or the limit at the start of the window.
	Before int64 `json:"before"`
	// Used and Limit are those at the end of the window.
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`

	account account
	whole   int64 // the change is a part of it
}

// moving is an account at the start of the window and at its latest step.
type moving struct{ start, now level }

// ReadTop compares the accounts at the start and at the end of the window. It sorts them by the changed part of the
// limit, because amounts of different resource types do not compare.
func ReadTop(ctx context.Context, source journal.Source, o TopOptions) (*Top, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	all := map[account]*moving{}
	_, err := eachStep(ctx, source, &o.Selection, true, func(s *step) {
		m := all[s.account]
		if m == nil {
			m = &moving{start: s.before}
			if s.entry.Kind == journal.Opened {
				m.start = s.after // the level before it is no change
			}
			all[s.account] = m
		}
		m.now = s.after
		if s.time.Before(o.Since) {
			m.start = s.after
		}
	})
	if err != nil {
		return nil, err
	}
	top := &Top{By: o.By, Items: []Mover{}, units: o.Units}
	for a, m := range all {
		if mover := o.mover(a, m); mover.Change != 0 {
			top.Items = append(top.Items, mover)
		}
	}
	slices.SortFunc(top.Items, compareMovers)
	top.Items = top.Items[:min(len(top.Items), o.Max)]
	return top, nil
}

func (o *TopOptions) mover(a account, m *moving) Mover {
	mover := Mover{ConsumerRef: a.consumer, ResourceType: a.resourceType, Used: m.now.used, Limit: m.now.limit, account: a}
	if o.By == ByLimit {
		mover.Before, mover.Change, mover.whole = m.start.limit, m.now.limit-m.start.limit, m.start.limit
	} else {
		mover.Before, mover.Change, mover.whole = m.start.used, m.now.used-m.start.used, max(m.now.limit, m.start.limit)
	}
	return mover
}

// compareMovers puts the larger part first. A part of nothing is the largest.
func compareMovers(a, b Mover) int {
	left := new(big.Int).Mul(magnitude(a.Change), big.NewInt(b.whole))
	right := new(big.Int).Mul(magnitude(b.Change), big.NewInt(a.whole))
	if a.whole == 0 && b.whole == 0 {
		left, right = magnitude(a.Change), magnitude(b.Change)
	}
	return cmp.Or(right.Cmp(left), magnitude(b.Change).Cmp(magnitude(a.Change)), compareAccounts(a.account, b.account))
}

func magnitude(change int64) *big.Int { return new(big.Int).Abs(big.NewInt(change)) }

// IsEmpty reports whether there is nothing to print.
func (t *Top) IsEmpty() bool { return len(t.Items) == 0 }

// Print writes the movers in a format.
func (t *Top) Print(w io.Writer, format usage.Format) error {
	switch {
	case format == usage.FormatJSON || format == usage.FormatYAML:
		return usage.Encode(w, t, format)
	case t.IsEmpty():
		return nil
	}
	of := "OF LIMIT"
	if t.By == ByLimit {
		of = "OF BEFORE"
	}
	rows := [][]string{{"CONSUMER", "RESOURCE TYPE", "CHANGE", of, "USED NOW", "LIMIT NOW"}}
	for i := range t.Items {
		m := &t.Items[i]
		unit := t.units[m.ResourceType]
		rows = append(rows, []string{
			nameOf(m.ConsumerRef), printable(m.ResourceType), Signed(unit, m.Change), m.percent(), unit.Amount(m.Used), unit.Amount(m.Limit),
		})
	}
	return usage.PrintTable(w, rows)
}

// percent writes the changed part, such as +20% or -5%. Where there is no whole, the change is "new".
func (m *Mover) percent() string {
	sign := "+"
	if m.Change < 0 {
		sign = "-"
	}
	if m.whole == 0 {
		return "new"
	}
	text := message.Percent(ledger.Amount(less(0, min(m.Change, 0))+max(m.Change, 0)), ledger.Amount(m.whole))
	if part, isLess := strings.CutPrefix(text, "<"); isLess {
		return "<" + sign + part
	}
	return sign + text
}

// Signed writes a change with its sign.
func Signed(unit usage.Unit, change int64) string {
	if change > 0 {
		return "+" + unit.Amount(change)
	}
	return unit.Amount(change)
}

// nameOf names a consumer as KIND/NAME, or as KIND.GROUP/NAMESPACE/NAME if it is in a namespace.
func nameOf(ref quotav1alpha1.ConsumerRef) string {
	if ref.Namespace != "" {
		return printable(ref.Kind + "." + ref.APIGroup + "/" + ref.Namespace + "/" + ref.Name)
	}
	return printable(ref.Kind + "/" + ref.Name)
}
