package importer

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/quotakinds"
	"github.com/bursar/bursar/internal/cli/terminal"
	"github.com/bursar/bursar/internal/usage"
)

// Report is the result of an import: the limits taken over, the parts without an equivalent, and the denials to expect.
type Report struct {
	From     string
	IsDryRun bool
	// Objects counts the objects of the former system, and Live the existing objects of the kinds of the policies.
	Objects, Live int
	Plan          *Plan
	// Short are the limits that would deny something, the exceeded ones first.
	Short []Short

	// importCommand repeats the import, and changeCommand takes --mode and --remove.
	importCommand, changeCommand string
}

// answer is the report for programs.
type answer struct {
	From      string                       `json:"from"`
	DryRun    bool                         `json:"dryRun,omitempty"`
	Sources   int                          `json:"sourceObjects"`
	Live      int                          `json:"liveObjects"`
	TakenOver []TakenOver                  `json:"takenOver"`
	Kept      []Leftover                   `json:"kept,omitempty"`
	Deleted   []Leftover                   `json:"deleted,omitempty"`
	Audited   []string                     `json:"stopEnforcing,omitempty"`
	NoEqual   []Note                       `json:"noEqual"`
	Denied    []Short                      `json:"wouldBeDenied"`
	Readable  []string                     `json:"readable,omitempty"`
	Objects   []*unstructured.Unstructured `json:"objects"`
}

// shownMax bounds the rows of a table for people.
const shownMax = 50

// Print writes the report: as tables, as JSON with the objects, or with YAML as the objects alone, to apply elsewhere.
func (r *Report) Print(w io.Writer, format usage.Format) error {
	if format != "" {
		objects, err := r.Plan.Objects(r.From)
		if err != nil {
			return err
		}
		if format == usage.FormatYAML {
			return quotakinds.PrintYAML(w, slices.Values(objects))
		}
		return usage.Encode(w, answer{
			From: r.From, DryRun: r.IsDryRun, Sources: r.Objects, Live: r.Live, TakenOver: r.Plan.TakenOver, Kept: r.Plan.Kept, Deleted: r.Plan.Deleted,
			Audited: r.Plan.Audited, NoEqual: r.Plan.Notes, Denied: r.Short, Readable: r.readable(), Objects: objects,
		}, format)
	}
	p := &printer{terminal.Lines{Out: w}}
	p.Line("Objects of %s: %d. Live objects counted: %d.", r.From, r.Objects, r.Live)
	r.printTakenOver(p)
	r.printLeftovers(p)
	r.printNotes(p)
	r.printShort(p)
	r.printRights(p)
	r.printNext(p)
	return p.Err
}

func (r *Report) printTakenOver(p *printer) {
	p.Line("\nTaken over (registrations: %d, grants: %d, policies: %d):", len(r.Plan.Registrations), len(r.Plan.Grants), len(r.Plan.Policies))
	rows := [][]string{{"FROM", "RESOURCE", "CONSUMER", "LIMIT"}}
	for _, t := range r.Plan.TakenOver[:min(len(r.Plan.TakenOver), shownMax)] {
		rows = append(rows, []string{t.From, t.Resource, message.Consumer(t.ConsumerRef), cmp.Or(t.Hard, strconv.FormatInt(t.Limit, 10))})
	}
	p.table(rows)
	p.more(len(r.Plan.TakenOver))
}

// printLeftovers prints the changes of what earlier imports, or people, have set up.
func (r *Report) printLeftovers(p *printer) {
	if len(r.Plan.Kept) > 0 {
		p.Line("\n%s no longer has these. They stay, because they are enforced; --prune deletes them:", r.From)
		p.leftovers(r.Plan.Kept)
	}
	if len(r.Plan.Deleted) > 0 {
		verb := "are deleted"
		if r.IsDryRun {
			verb = "would be deleted"
		}
		p.Line("\n%s no longer has these. They %s:", r.From, verb)
		p.leftovers(r.Plan.Deleted)
	}
	if len(r.Plan.Audited) > 0 {
		p.Line("\nThese policies enforced until now, and then only count: %s.", strings.Join(firstOf(r.Plan.Audited), ", "))
	}
}

func (p *printer) leftovers(all []Leftover) {
	rows := [][]string{{"OBJECT", "RESOURCE TYPE", "CONSUMER", "LIMIT", "MODE"}}
	for _, l := range all[:min(len(all), shownMax)] {
		row := []string{l.Object, l.ResourceType, "", "", string(l.Mode)}
		if l.ConsumerRef != nil {
			row[2] = message.Consumer(*l.ConsumerRef)
		}
		if l.Limit != nil {
			row[3] = strconv.FormatInt(*l.Limit, 10)
		}
		rows = append(rows, row)
	}
	p.table(rows)
	p.more(len(all))
}

func (r *Report) printNotes(p *printer) {
	if len(r.Plan.Notes) == 0 {
		p.Line("\nEverything has an equivalent.")
		return
	}
	p.Line("\nWithout an equivalent, or counted in another way:")
	for _, n := range r.Plan.Notes {
		p.Line("- %s: %s.", n.What, n.Why)
	}
}

func (r *Report) printShort(p *printer) {
	if len(r.Short) == 0 {
		p.Line("\nIf the policies enforced now, nothing would be denied: every limit has room.")
		return
	}
	p.Line("\nIf the policies enforced now, more of these would be denied:")
	rows := [][]string{{"CONSUMER", "RESOURCE TYPE", "USED", "LIMIT", ""}}
	for _, s := range r.Short[:min(len(r.Short), shownMax)] {
		state := "full"
		if s.Used > s.Limit {
			state = "exceeded"
		}
		rows = append(rows, []string{message.Consumer(s.ConsumerRef), s.ResourceType, strconv.FormatInt(s.Used, 10), strconv.FormatInt(s.Limit, 10), state})
	}
	p.table(rows)
	p.more(len(r.Short))
}

// printRights prints what the role of the import permits.
func (r *Report) printRights(p *printer) {
	if kinds := r.readable(); len(kinds) > 0 {
		verb := "lets"
		if r.IsDryRun {
			verb = "would let"
		}
		p.Line("\nThe import %s Bursar read all objects of these kinds, with their content (get, list and watch, by ClusterRole %s): %s.",
			verb, quotakinds.ImportedRole(r.From), strings.Join(kinds, ", "))
	}
}

// readable returns the kinds that Bursar may read by the role of the import.
func (r *Report) readable() []string {
	var kinds []string
	if len(r.Plan.Consumers) == 0 {
		return nil // there is no role
	}
	for _, resource := range r.Plan.followed {
		kinds = append(kinds, resource.GroupResource().String())
	}
	slices.Sort(kinds)
	return kinds
}

func (r *Report) printNext(p *printer) {
	if r.IsDryRun {
		p.Line("\nNothing was written: this was a dry run. To import: %s", r.importCommand)
		return
	}
	inModes := map[quotav1alpha1.EnforcementMode]int{}
	for _, policy := range r.Plan.Policies {
		inModes[modeOf(policy)]++
	}
	switch {
	case inModes[quotav1alpha1.EnforcementModeAudit] == len(r.Plan.Policies):
		p.Line("\nThe policies are in the mode Audit: they count, and deny nothing. Next:")
	default:
		var counts []string
		for _, mode := range sortedKeys(inModes) {
			counts = append(counts, fmt.Sprintf("%s: %d", mode, inModes[mode]))
		}
		p.Line("\nThe policies keep their modes (%s). Next:", strings.Join(counts, ", "))
	}
	p.Line("  watch what they would deny    bursar policy backtest POLICY, and the events NotEnforced of the policies")
	p.Line("  let them deny                 %s --mode Enforce", r.changeCommand)
	p.Line("  go back                       %s --mode Audit, or --remove for everything", r.changeCommand)
}

// printer prints the lines and tables of a report.
type printer struct{ terminal.Lines }

func (p *printer) table(rows [][]string) {
	if p.Err == nil && len(rows) > 1 {
		p.Err = usage.PrintTable(p.Out, rows)
	}
}

func (p *printer) more(all int) {
	if all > shownMax {
		p.Line("... and %d more: -o json has all.", all-shownMax)
	}
}
