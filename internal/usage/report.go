package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Format is how a report is printed. The zero value is a table.
type Format string

// The formats besides the table.
const (
	FormatWide Format = "wide"
	FormatJSON Format = "json"
	FormatYAML Format = "yaml"
)

// Filter says which quota is reported. What is empty leaves nothing out.
type Filter struct {
	// Namespace is where the quota is shown.
	Namespace string
	// Consumer is the name of a consumer, or KIND/NAME, where the kind may be in any case.
	Consumer string
	// ResourceType is a resource type, or what follows its last slash.
	ResourceType string
}

func (f Filter) matches(spec *quotav1alpha1.EffectiveResourceGrantSpec) bool {
	kind, name, hasKind := strings.Cut(f.Consumer, "/")
	if !hasKind {
		kind, name = "", kind
	}
	consumer, resourceType := spec.ConsumerRef, spec.ResourceType
	return (name == "" || name == consumer.Name) && (kind == "" || strings.EqualFold(kind, consumer.Kind)) &&
		(f.ResourceType == "" || f.ResourceType == resourceType || f.ResourceType == resourceType[strings.LastIndex(resourceType, "/")+1:])
}

// Report is how much of their quota consumers use, those first that use most of it.
type Report struct {
	Items []Item `json:"items"`
}

// Item is one resource type of one consumer, in base units.
type Item struct {
	ConsumerRef  quotav1alpha1.ConsumerRef `json:"consumerRef"`
	ResourceType string                    `json:"resourceType"`
	Used         int64                     `json:"used"`
	Limit        int64                     `json:"limit"`
	Available    int64                     `json:"available"`
	// Utilization is which part of the limit is used, or nil where something is used and nothing is granted.
	Utilization *float64 `json:"utilization"`
	// Display is the same in display units, or nil while the resource type has no active registration.
	Display *quotav1alpha1.DisplayedQuota `json:"display,omitempty"`
}

func (i Item) usage() Usage {
	return Usage{Consumer: i.ConsumerRef, ResourceType: i.ResourceType, Used: i.Used, Limit: i.Limit}
}

// pageSize is how many objects one request lists.
const pageSize = 500

// Read reads what a filter leaves of the quota that the caller may see. An error is that of the API server.
func Read(ctx context.Context, api client.Reader, filter Filter) (*Report, error) {
	report := &Report{Items: []Item{}}
	seen := map[quotav1alpha1.EffectiveResourceGrantSpec]bool{} // one that is being moved may be there twice
	for next := ""; ; {
		var page quotav1alpha1.EffectiveResourceGrantList
		if err := api.List(ctx, &page, client.InNamespace(filter.Namespace), client.Limit(pageSize), client.Continue(next)); err != nil {
			return nil, err
		}
		for i := range page.Items {
			if shown := &page.Items[i]; filter.matches(&shown.Spec) && !seen[shown.Spec] {
				seen[shown.Spec] = true
				report.Items = append(report.Items, itemOf(shown))
			}
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	slices.SortFunc(report.Items, func(a, b Item) int { return compare(a.usage(), b.usage()) })
	return report, nil
}

func itemOf(shown *quotav1alpha1.EffectiveResourceGrant) Item {
	status := &shown.Status
	item := Item{
		ConsumerRef: shown.Spec.ConsumerRef, ResourceType: shown.Spec.ResourceType,
		Used: status.TotalAllocated, Limit: status.TotalLimit, Available: status.Available, Display: status.Display,
	}
	if ratio := item.usage().Ratio(); !math.IsInf(ratio, 1) {
		item.Utilization = &ratio
	}
	return item
}

// Print writes the report.
func (r *Report) Print(w io.Writer, format Format) error {
	switch format {
	case FormatJSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "    ")
		return encoder.Encode(r)
	case FormatYAML:
		encoded, err := yaml.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode the report: %w", err)
		}
		_, err = w.Write(encoded)
		return err
	default:
		return r.printTable(w, format == FormatWide)
	}
}

func (r *Report) printTable(w io.Writer, isWide bool) error {
	table := printers.GetNewTabWriter(w)
	columns := []string{"CONSUMER", "RESOURCE TYPE", "USED", "LIMIT", "AVAILABLE", "UTILIZATION"}
	if isWide {
		columns = append(columns, "GROUP", "USED (BASE)", "LIMIT (BASE)")
	}
	rows := [][]string{columns}
	for _, i := range r.Items {
		display := i.Display
		if display == nil {
			display = &quotav1alpha1.DisplayedQuota{TotalAllocated: fmt.Sprint(i.Used), TotalLimit: fmt.Sprint(i.Limit), Available: fmt.Sprint(i.Available)}
		}
		row := []string{nameOf(i.ConsumerRef), i.ResourceType, display.TotalAllocated, display.TotalLimit, display.Available, percent(i.Used, i.Limit)}
		if isWide {
			row = append(row, i.ConsumerRef.APIGroup, fmt.Sprint(i.Used), fmt.Sprint(i.Limit))
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		if _, err := fmt.Fprintln(table, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return table.Flush()
}

// nameOf names a consumer as Kind/name, after its namespace if it has one.
func nameOf(consumer quotav1alpha1.ConsumerRef) string {
	if consumer.Namespace != "" {
		return consumer.Namespace + "/" + consumer.Kind + "/" + consumer.Name
	}
	return consumer.Kind + "/" + consumer.Name
}

// percent writes which part of a limit is used, so that what is full says 100%, and nothing else does.
func percent(used, limit int64) string {
	part := float64(used) * 100 / float64(limit)
	switch {
	case used > 0 && limit == 0:
		return "nothing granted"
	case used == 0:
		return "0%"
	case used > limit:
		return fmt.Sprintf("%.0f%%", math.Ceil(part))
	default:
		return fmt.Sprintf("%.0f%%", math.Floor(part))
	}
}
