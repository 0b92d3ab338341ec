package history

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/journal"
)

// Options are those of [Read].
type Options struct {
	Selection
	// ChangesMax bounds the changes of use of each resource type. 0: all.
	ChangesMax int
	// OnlyLimits leaves out use and its changes. It allows for several consumers.
	OnlyLimits bool
	Units      Units
	// Style is the style of the charts.
	Style Style
}

// Check returns an error for invalid options.
func (o *Options) Check() error {
	if o.ChangesMax < 0 {
		return errors.New("--changes: give a number of 1 or more, or 0 for all")
	}
	return o.Selection.Check()
}

// Report is the history of the selected accounts, sorted by consumer and resource type.
type Report struct {
	Items []Account `json:"items"`
	// Gaps are those in the journal of the selected consumers, in the window.
	Gaps []Gap `json:"gaps,omitempty"`

	onlyLimits bool
	units      Units
	style      Style
	// since is set if the report omits accounts without a change since then.
	since time.Time
}

// Account is the history of one resource type of one consumer, in base units.
type Account struct {
	ConsumerRef  quotav1alpha1.ConsumerRef `json:"consumerRef"`
	ResourceType string                    `json:"resourceType"`
	// From and Until are the window.
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Used and Limit are those at the end of the window, and PeakUsed is the largest use in it.
	Used     int64 `json:"used"`
	Limit    int64 `json:"limit"`
	PeakUsed int64 `json:"peakUsed"`
	// LimitChanges are all changes of the limit in the window.
	LimitChanges []LimitChange `json:"limitChanges"`
	// Changes are the latest changes of use in the window, and ChangesOmitted counts those before them.
	Changes        []Change `json:"changes,omitempty"`
	ChangesOmitted int      `json:"changesOmitted,omitempty"`

	account account
	levels  []levelAt
	// begin is the first known level of the window.
	begin levelAt
}

// LimitChange is a change of a limit.
type LimitChange struct {
	Time time.Time `json:"time"`
	From int64     `json:"from"`
	To   int64     `json:"to"`
	// Grant is the ResourceGrant, and Actor the user whose request changed it.
	Grant string `json:"grant,omitempty"`
	Actor string `json:"actor,omitempty"`
	// Since is the time of the entry before a gap in the journal. The change happened between both, by an unknown actor.
	Since *time.Time `json:"since,omitempty"`
}

// Change is a change of use.
type Change struct {
	Time       time.Time         `json:"time"`
	Kind       journal.Kind      `json:"kind"`
	Dimensions map[string]string `json:"dimensions,omitempty"`
	Change     int64             `json:"change"`
	Used       int64             `json:"used"`
	Limit      int64             `json:"limit"`
	Object     *journal.Object   `json:"object,omitempty"`
	Claim      string            `json:"claim,omitempty"`
	Policy     string            `json:"policy,omitempty"`
	Actor      string            `json:"actor,omitempty"`
	// Lost is how many entries nobody has before an Opened entry.
	Lost int64 `json:"lost,omitempty"`
}

// levelAt is a level from a time on.
type levelAt struct {
	time time.Time
	level
}

// Read reads the history of one consumer. With OnlyLimits, it reads that of all selected consumers.
func Read(ctx context.Context, source journal.Source, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	all := map[account]*Account{}
	latest := map[account]time.Time{}
	_, isPaged := source.(paged)
	n, err := eachStep(ctx, source, &o.Selection, o.OnlyLimits || isPaged, func(s *step) {
		a := all[s.account]
		if a == nil {
			a = accountFrom(s, &o)
			all[s.account] = a
		}
		a.add(s, &o, latest[s.account])
		latest[s.account] = s.time
	})
	if err != nil {
		return nil, err
	}
	report := &Report{Items: []Account{}, Gaps: n.gapsIn(&o.Selection), onlyLimits: o.OnlyLimits, units: o.Units, style: o.Style}
	if n.inWindow && !o.OnlyLimits && o.ResourceType == "" {
		report.since = o.Since
	}
	for _, a := range all {
		if o.OnlyLimits && len(a.LimitChanges) == 0 {
			continue
		}
		a.finish(&o)
		report.Items = append(report.Items, *a)
	}
	slices.SortFunc(report.Items, func(a, b Account) int { return compareAccounts(a.account, b.account) })
	if !o.OnlyLimits && o.Consumer == "" && len(n.consumers) > 1 {
		refs := slices.Collect(maps.Keys(n.consumers))
		return nil, errors.New("name a consumer, such as bursar history KIND/NAME, or list the limits of all with --limits" + journalHas(refs))
	}
	return report, nil
}

// accountFrom returns the account of its first step.
func accountFrom(s *step, o *Options) *Account {
	from := o.starts(s.time)
	a := &Account{
		ConsumerRef: s.consumer, ResourceType: s.resourceType, From: from, Until: o.end(), LimitChanges: []LimitChange{},
		account: s.account, levels: []levelAt{{from, s.before}}, begin: levelAt{from, s.before},
	}
	if s.isFirst && s.entry.Kind == journal.Opened {
		a.begin = levelAt{s.time, s.after}
	}
	return a
}

func journalHas(refs []quotav1alpha1.ConsumerRef) string {
	known := consumername.List(refs)
	if len(known) > namedMax {
		known = append(known[:namedMax:namedMax], "others")
	}
	text := "; the journal has "
	for i, name := range known {
		switch {
		case i == 0:
		case i == len(known)-1:
			text += " and "
		default:
			text += ", "
		}
		text += name
	}
	return text
}

// add adds a step. The one before it was at the time of latest.
func (a *Account) add(s *step, o *Options, latest time.Time) {
	a.Used, a.Limit = s.after.used, s.after.limit
	if s.time.Before(o.Since) {
		a.levels[0].level = s.after
		a.begin = a.levels[0]
		return
	}
	a.PeakUsed = max(a.PeakUsed, s.after.used)
	if !o.OnlyLimits {
		a.levels = append(a.levels, levelAt{s.time, s.after})
	}
	isChange := s.before.limit != s.after.limit || s.entry.Kind == journal.LimitChanged && s.entry.Change != 0
	if isChange && !(s.isFirst && s.entry.Kind == journal.Opened) {
		change := LimitChange{Time: s.entry.Time, From: s.before.limit, To: s.after.limit, Grant: s.entry.Grant, Actor: s.entry.Actor}
		if s.entry.Kind != journal.LimitChanged {
			change.Since = &latest
			change.Actor = "" // the entry's actor changed the use
		}
		a.LimitChanges = append(a.LimitChanges, change)
	}
	if s.entry.Kind == journal.LimitChanged || o.OnlyLimits {
		return
	}
	a.Changes = append(a.Changes, changeOf(s))
	if o.ChangesMax > 0 && len(a.Changes) >= 2*o.ChangesMax { // so that each change moves once
		a.cut(o.ChangesMax)
	}
}

func changeOf(s *step) Change {
	e := s.entry
	c := Change{
		Time: e.Time, Kind: e.Kind, Dimensions: e.Dimensions, Change: e.Change, Used: s.after.used, Limit: s.after.limit,
		Object: e.Object, Claim: e.Claim, Policy: e.Policy, Actor: e.Actor,
	}
	if e.Kind == journal.Opened && e.Opening != nil {
		c.Lost = e.Opening.Lost
	}
	if e.Kind == journal.Opened && !s.isFirst {
		c.Change = s.after.used - s.before.used
	}
	return c
}

func (a *Account) cut(changesMax int) {
	if omitted := len(a.Changes) - changesMax; changesMax > 0 && omitted > 0 {
		a.Changes = append(a.Changes[:0], a.Changes[omitted:]...)
		a.ChangesOmitted += omitted
	}
}

func (a *Account) finish(o *Options) {
	a.cut(o.ChangesMax)
	a.PeakUsed = max(a.PeakUsed, a.levels[0].used)
}

// IsEmpty reports whether there is nothing to print.
func (r *Report) IsEmpty() bool { return len(r.Items)+len(r.Gaps) == 0 }
