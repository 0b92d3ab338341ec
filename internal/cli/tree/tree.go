// Package tree shows the quota of consumers as a tree: the resource types, the grants behind each limit, and the
// objects that use it. It reads with the permissions of its user. Only commands import it.
package tree

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/cli/who"
	"github.com/bursar/bursar/internal/usage"
)

// Tree is the quota of consumers.
type Tree struct {
	Items []Consumer `json:"items"`
	// Notes are further remarks for the user.
	Notes []string `json:"notes,omitempty"`
}

// Consumer is a consumer with its resource types.
type Consumer struct {
	ConsumerRef   quotav1alpha1.ConsumerRef `json:"consumerRef"`
	ResourceTypes []ResourceType            `json:"resourceTypes"`
}

// ResourceType is a resource type of a consumer with its grants and objects.
type ResourceType struct {
	usage.Item `json:",inline"`
	Objects    []who.Object `json:"objects"`
	// More counts the omitted objects.
	More int `json:"more,omitempty"`
	// OtherUsed is the use by other objects in base units: those of other namespaces or labels, or not for this user to
	// see.
	OtherUsed int64 `json:"otherUsed,omitempty"`

	moreUsed int64
}

// Of returns the tree of a report with claims, sorted by consumer. It has the consumers of a name, or all without a
// name. It has at most objectsMax objects of each resource type, or all for 0.
func Of(report *usage.Report, name *consumername.Name, objectsMax int) *Tree {
	t := &Tree{Items: []Consumer{}, Notes: report.Notes}
	for i := range report.Items {
		item := &report.Items[i]
		if name != nil && !name.Matches(item.ConsumerRef) {
			continue
		}
		if last := len(t.Items) - 1; last < 0 || t.Items[last].ConsumerRef != item.ConsumerRef {
			t.Items = append(t.Items, Consumer{ConsumerRef: item.ConsumerRef})
		}
		consumer := &t.Items[len(t.Items)-1]
		consumer.ResourceTypes = append(consumer.ResourceTypes, typeOf(report, item, objectsMax))
	}
	return t
}

func typeOf(report *usage.Report, item *usage.Item, objectsMax int) ResourceType {
	r := ResourceType{Item: *item, Objects: who.ObjectsOf(report, item)}
	who.Sort(r.Objects)
	r.OtherUsed = who.OtherUsed(item, r.Objects)
	if objectsMax <= 0 || len(r.Objects) <= objectsMax {
		return r
	}
	for _, o := range r.Objects[objectsMax:] {
		if o.IsGranted() {
			r.moreUsed += o.Amount
		}
	}
	r.More = len(r.Objects) - objectsMax
	r.Objects = slices.Clip(r.Objects[:objectsMax])
	return r
}

// IsEmpty reports whether there is no consumer.
func (t *Tree) IsEmpty() bool { return len(t.Items) == 0 }

// lines are the beginnings of a tree's lines: of a node with later siblings and of the last one, and those under each.
type lines struct{ node, last, under, underLast string }

var (
	drawn = lines{"├─ ", "└─ ", "│  ", "   "}
	ascii = lines{"|- ", "`- ", "|  ", "   "}
)

// Print writes the tree, with ASCII characters only if it isASCII.
func (t *Tree) Print(w io.Writer, format usage.Format, isASCII bool) error {
	if format == usage.FormatJSON || format == usage.FormatYAML {
		return usage.Encode(w, t, format)
	}
	p := printer{rows: [][]string{{"NAME", "USED", "LIMIT", "UTILIZATION", "STATE"}}, lines: drawn}
	if isASCII {
		p.lines = ascii
	}
	if p.isWide = format == usage.FormatWide; p.isWide {
		p.rows[0] = append(p.rows[0], "USED (BASE)", "LIMIT (BASE)")
	}
	for i := range t.Items {
		p.consumer(&t.Items[i])
	}
	if err := usage.PrintTable(w, p.rows); err != nil {
		return err
	}
	for _, note := range t.Notes {
		if _, err := fmt.Fprintf(w, "\n%s\n", note); err != nil {
			return err
		}
	}
	return nil
}

type printer struct {
	rows   [][]string
	lines  lines
	isWide bool
}

// row adds a row. The last two amounts are in base units, or empty.
func (p *printer) row(name, used, limit, utilization, state, usedBase, limitBase string) {
	row := []string{name, used, limit, utilization, state}
	if p.isWide {
		row = append(row, usedBase, limitBase)
	}
	p.rows = append(p.rows, row)
}

func (p *printer) consumer(c *Consumer) {
	p.row(usage.NameOf(c.ConsumerRef), "", "", "", "", "", "")
	for i := range c.ResourceTypes {
		node, under := p.lines.node, p.lines.under
		if i == len(c.ResourceTypes)-1 {
			node, under = p.lines.last, p.lines.underLast
		}
		p.resourceType(node, under, &c.ResourceTypes[i])
	}
}

func (p *printer) resourceType(node, under string, r *ResourceType) {
	used, limit := r.Amounts()
	p.row(node+r.ResourceType, used, limit, r.Percent(), "", base(r.Used), base(r.Limit))
	unit, _ := usage.UnitOf(r.Item)
	left := len(r.GrantRefs) + len(r.Objects) + min(r.More, 1) + int(min(r.OtherUsed, 1))
	next := func() string {
		if left--; left == 0 {
			return under + p.lines.last
		}
		return under + p.lines.node
	}
	for _, grant := range r.GrantRefs {
		p.row(next()+grant.Namespace+"/ResourceGrant/"+grant.Name, "", unit.Amount(grant.Amount), "", "", "", base(grant.Amount))
	}
	for _, o := range r.Objects {
		if o.IsGranted() {
			p.row(next()+o.Name, o.AmountText(), "", "", o.State, base(o.Amount), "")
		} else {
			p.row(next()+o.Name, "("+o.AmountText()+")", "", "", o.State, "", "")
		}
	}
	if r.More > 0 {
		p.row(next()+strconv.Itoa(r.More)+" more, left out by --number", unit.Amount(r.moreUsed), "", "", "", base(r.moreUsed), "")
	}
	if r.OtherUsed > 0 {
		p.row(next()+"other objects, not shown here", unit.Amount(r.OtherUsed), "", "", "", base(r.OtherUsed), "")
	}
}

func base(amount int64) string { return strconv.FormatInt(amount, 10) }
