package restore

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/backup"
	"github.com/bursar/bursar/internal/cli/quotakinds"
	"github.com/bursar/bursar/internal/cli/terminal"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/usage"
)

// Report is the outcome of a restore. It is safe for concurrent use until Run returns.
type Report struct {
	mu       sync.Mutex
	manifest *backup.Manifest
	isDry    bool
	// missingNamespaces are the namespaces to create.
	missingNamespaces []string
	// marks are the differences of namespaces that quota may depend on.
	marks         []mark
	counts        map[string]*kindCounts
	leftOut       map[leftOut]int
	missingOwners int
	// before is the charge of the claims in the backup, and now that of the claims on the server.
	before use
	now    use
	// units has the registrations of the backup, for their units.
	units      *catalog.Catalog
	isVerified bool
}

// kindCounts are the objects of a kind by outcome.
type kindCounts struct{ restored, present, replaced, leftOut int }

// leftOut are objects of a kind left out for a reason.
type leftOut struct{ resource, reason string }

func newReport(manifest *backup.Manifest, isDry bool) *Report {
	return &Report{manifest: manifest, isDry: isDry, counts: map[string]*kindCounts{}, leftOut: map[leftOut]int{}, before: use{}, units: catalog.New()}
}

// readUnits reads the units of resource types from the registrations of the backup.
func (r *restorer) readUnits(context.Context) error {
	return r.each(r.kinds[registrations], func(object *unstructured.Unstructured) error {
		registration := &quotav1alpha1.ResourceRegistration{}
		if err := backup.Decode(object, registration); err != nil {
			return fmt.Errorf("decode ResourceRegistration %s: %w", object.GetName(), err)
		}
		r.report.units.SetRegistration(registration)
		return nil
	})
}

func (r *Report) of(kind quotakinds.Kind) *kindCounts {
	name := kind.String()
	if r.counts[name] == nil {
		r.counts[name] = &kindCounts{}
	}
	return r.counts[name]
}

func (r *Report) count(kind quotakinds.Kind, became result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.of(kind)
	switch became {
	case restored:
		c.restored++
	case present:
		c.present++
	default:
		c.replaced++
	}
}

func (r *Report) leaveOut(kind quotakinds.Kind, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(kind).leftOut++
	r.leftOut[leftOut{kind.String(), reason}]++
}

func (r *Report) addMissingOwners(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missingOwners += n
}

// addUse adds a claim of the backup. If its amounts do not add up, the restore of the claim reports it.
func (r *Report) addUse(claim *quotav1alpha1.ResourceClaim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.before.add(claim) // the restore checks the sums of the server
}

// answer is the report for programs.
type answer struct {
	CreatedAt  string         `json:"createdAt"`
	DryRun     bool           `json:"dryRun,omitempty"`
	Verified   bool           `json:"verified"`
	Namespaces []string       `json:"createdNamespaces,omitempty"`
	Marks      []markAnswer   `json:"differentNamespaces,omitempty"`
	Kinds      []kindAnswer   `json:"kinds"`
	LeftOut    []reasonAnswer `json:"leftOut,omitempty"`
	Use        []useAnswer    `json:"differentUse,omitempty"`
}

type kindAnswer struct {
	Resource string `json:"resource"`
	InBackup int    `json:"inBackup"`
	Restored int    `json:"restored"`
	Present  int    `json:"present"`
	Replaced int    `json:"replaced"`
	LeftOut  int    `json:"leftOut"`
}

// markAnswer is a label or annotation of a namespace. Absent, there is no value.
type markAnswer struct {
	Namespace string  `json:"namespace"`
	Field     string  `json:"field"`
	Key       string  `json:"key"`
	InBackup  *string `json:"inBackup,omitempty"`
	Now       *string `json:"now,omitempty"`
}

type reasonAnswer struct {
	Resource string `json:"resource"`
	Objects  int    `json:"objects"`
	Reason   string `json:"reason"`
}

type useAnswer struct {
	ConsumerRef  quotav1alpha1.ConsumerRef `json:"consumerRef"`
	ResourceType string                    `json:"resourceType"`
	Dimensions   map[string]string         `json:"dimensions,omitempty"`
	InBackup     int64                     `json:"inBackup"`
	Now          int64                     `json:"now"`
}

func (r *Report) answer() answer {
	a := answer{CreatedAt: r.manifest.CreatedAt.UTC().Format("2006-01-02T15:04:05Z"), DryRun: r.isDry, Verified: r.isVerified, Namespaces: r.missingNamespaces}
	for _, file := range r.manifest.Files {
		c := r.counts[file.Resource]
		if c == nil {
			c = &kindCounts{}
		}
		if file.Objects > 0 {
			a.Kinds = append(a.Kinds, kindAnswer{file.Resource, file.Objects, c.restored, c.present, c.replaced, c.leftOut})
		}
	}
	for _, m := range r.marks {
		a.Marks = append(a.Marks, markAnswer{m.namespace, m.field, m.key, m.before, m.now})
	}
	for key, objects := range r.leftOut {
		a.LeftOut = append(a.LeftOut, reasonAnswer{key.resource, objects, key.reason})
	}
	slices.SortFunc(a.LeftOut, func(x, y reasonAnswer) int {
		return cmp.Or(cmp.Compare(x.Resource, y.Resource), cmp.Compare(x.Reason, y.Reason))
	})
	if r.now == nil {
		return a
	}
	all := maps.Clone(r.before)
	maps.Copy(all, r.now)
	for _, key := range slices.SortedFunc(maps.Keys(all), compareBalances) {
		if before, now := r.before[key], r.now[key]; before.amount != now.amount {
			a.Use = append(a.Use, useAnswer{key.consumer, key.resourceType, key.dimensions.Map(), int64(before.amount), int64(now.amount)})
		}
	}
	return a
}

// Print writes the report in a format.
func (r *Report) Print(w io.Writer, format usage.Format) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.answer()
	if format == usage.FormatJSON || format == usage.FormatYAML {
		return usage.Encode(w, a, format)
	}
	rows := [][]string{{"KIND", "IN BACKUP", "RESTORED", "THERE BEFORE", "REPLACED", "LEFT OUT"}}
	for _, k := range a.Kinds {
		rows = append(rows, []string{k.Resource, strconv.Itoa(k.InBackup), strconv.Itoa(k.Restored), strconv.Itoa(k.Present), strconv.Itoa(k.Replaced), strconv.Itoa(k.LeftOut)})
	}
	if err := usage.PrintTable(w, rows); err != nil {
		return err
	}
	p := &terminal.Lines{Out: w}
	for i, l := range a.LeftOut {
		if i == 0 {
			p.Line("")
		}
		p.Line("Left out %s: %d, because %s.", l.Resource, l.Objects, l.Reason)
	}
	if r.missingOwners > 0 {
		p.Line("Left out missing owners of claims: %d. The makers of these claims must delete the claims themselves.", r.missingOwners)
	}
	if err := printMarks(p, a.Marks); err != nil {
		return err
	}
	if len(r.missingNamespaces) > 0 && !r.manifest.HasNamespaces() {
		p.Line("The backup is of an earlier version, without the labels of namespaces: label the new ones, because quota may select them by labels.")
	}
	if err := r.printUse(p, a.Use); err != nil {
		return err
	}
	p.Line("")
	switch {
	case r.isDry:
		p.Line("Nothing was changed: this was a dry run.")
	case r.isVerified:
		p.Line("The ledgers agree with the claims.")
	}
	return p.Err
}

// printUse shows the consumers with another use than in the backup.
func (r *Report) printUse(p *terminal.Lines, different []useAnswer) error {
	if len(different) == 0 {
		return nil
	}
	rows := [][]string{{"CONSUMER", "RESOURCE TYPE", "USED IN BACKUP", "USED NOW"}}
	for _, u := range different {
		text := func(amount int64) string { return message.AmountOf(r.units, u.ResourceType, ledger.Amount(amount)) }
		rows = append(rows, []string{message.Consumer(u.ConsumerRef), u.ResourceType, text(u.InBackup), text(u.Now)})
	}
	p.Line("")
	if err := usage.PrintTable(p.Out, rows); err != nil {
		return err
	}
	p.Line("\nThese consumers use another amount than in the backup, because the server lacks objects of the backup, or has others.")
	return p.Err
}

// printMarks warns about namespaces with other labels or annotations than in the backup.
func printMarks(p *terminal.Lines, marks []markAnswer) error {
	if len(marks) == 0 {
		return nil
	}
	rows := [][]string{{"NAMESPACE", "LABEL OR ANNOTATION", "IN BACKUP", "HERE"}}
	for _, m := range marks {
		rows = append(rows, []string{m.Namespace, m.Key, ptr.Deref(m.InBackup, none), ptr.Deref(m.Now, none)})
	}
	p.Line("")
	if err := usage.PrintTable(p.Out, rows); err != nil {
		return err
	}
	p.Line("\nWarning: these namespaces differ from the backup, and quota may select namespaces by these labels and annotations. Set them as in the backup " +
		"to have the same quota.")
	return p.Err
}

// none stands for a missing value in a table.
const none = "<none>"
