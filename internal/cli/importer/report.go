package importer

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/bursar/bursar/internal/claims/message"
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
}

// answer is the report for programs.
type answer struct {
	From      string                       `json:"from"`
	DryRun    bool                         `json:"dryRun,omitempty"`
	Sources   int                          `json:"sourceObjects"`
	Live      int                          `json:"liveObjects"`
	TakenOver []TakenOver                  `json:"takenOver"`
	NoEqual   []Note                       `json:"noEqual"`
	Denied    []Short                      `json:"wouldBeDenied"`
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
			return printObjects(w, objects)
		}
		return usage.Encode(w, answer{r.From, r.IsDryRun, r.Objects, r.Live, r.Plan.TakenOver, r.Plan.Notes, r.Short, objects}, format)
	}
	p := &printer{terminal.Lines{Out: w}}
	p.Line("Objects of %s: %d. Live objects counted: %d.", r.From, r.Objects, r.Live)
	r.printTakenOver(p)
	r.printNotes(p)
	r.printShort(p)
	r.printNext(p)
	return p.Err
}

func printObjects(w io.Writer, objects []*unstructured.Unstructured) error {
	for n, object := range objects {
		content, err := yaml.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("encode %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if n > 0 {
			content = append([]byte("---\n"), content...)
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	return nil
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

func (r *Report) printNext(p *printer) {
	if r.IsDryRun {
		p.Line("\nNothing was written: this was a dry run. To import: bursar import --from %s", r.From)
		return
	}
	p.Line("\nThe policies are in the mode Audit, unless you changed it: they count, and deny nothing. Next:")
	p.Line("  watch what they would deny    bursar policy backtest POLICY, and the events NotEnforced of the policies")
	p.Line("  let them deny                 bursar import --from %s --mode Enforce", r.From)
	p.Line("  go back                       bursar import --from %s --mode Audit, or --remove for everything", r.From)
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
