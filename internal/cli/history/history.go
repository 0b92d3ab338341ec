// Package history answers questions from the journal: limits and use over time, movers, amount-hours, and the denials
// under other limits. It reads all entries, because the level at the start of a window comes from the last change
// before it. Commands and the console import it.
//
// A command reads the journal once and in one direction. The memory for it grows with the accounts, that is, the
// resource types of consumers, and not with the entries. Two functions keep more: [Read] the levels in its charts, and
// [Replay] the denied objects.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/usage"
)

// namedMax bounds how many consumers or resource types an error names.
const namedMax = 10

// Selection selects entries. An empty field selects all.
type Selection struct {
	// Consumer is KIND/NAME, KIND.GROUP/NAME or KIND.GROUP/NAMESPACE/NAME.
	Consumer string
	// ResourceType is a resource type, or its end after the last slash.
	ResourceType string
	// Since and Until are the window: from Since on and before Until.
	Since, Until time.Time
	// Now is the end of a window without Until.
	Now time.Time
	// IsLenient means that a name without an entry in the window is no error. The query then reads no more than the
	// window.
	IsLenient bool
}

// Check returns an error for an invalid selection.
func (s *Selection) Check() error {
	if s.Consumer != "" {
		if _, err := consumername.Parse(s.Consumer); err != nil {
			return fmt.Errorf("the consumer %w", err)
		}
	}
	switch {
	case s.Since.After(s.Now):
		return fmt.Errorf("--since: %s is in the future", inUTC(s.Since))
	case !s.Until.IsZero() && !s.Since.Before(s.Until):
		return fmt.Errorf("--until: %s is not after --since, which is %s", inUTC(s.Until), inUTC(s.Since))
	}
	return nil
}

// end is the end of the window.
func (s *Selection) end() time.Time {
	if s.Until.IsZero() || s.Until.After(s.Now) { // the use after now is unknown
		return s.Now
	}
	return s.Until
}

// starts returns the start of the window, for an account with its first entry at a time.
func (s *Selection) starts(first time.Time) time.Time {
	if s.Since.IsZero() {
		return first
	}
	return s.Since
}

// Units are the known display units of resource types.
type Units map[string]usage.Unit

// account is one resource type of one consumer.
type account struct {
	consumer     quotav1alpha1.ConsumerRef
	resourceType string
}

func compareAccounts(a, b account) int {
	return cmp.Or(
		cmp.Compare(a.consumer.Kind, b.consumer.Kind), cmp.Compare(a.consumer.Namespace, b.consumer.Namespace),
		cmp.Compare(a.consumer.Name, b.consumer.Name), cmp.Compare(a.consumer.APIGroup, b.consumer.APIGroup),
		cmp.Compare(a.resourceType, b.resourceType))
}

// names selects consumers and resource types by a selection, and remembers all names it has met.
type names struct {
	selection *Selection
	consumer  consumername.Name
	consumers map[quotav1alpha1.ConsumerRef]bool
	types     map[string]bool
	// inWindow reports whether the read began with the window.
	inWindow bool
	// gaps are those of the selected consumers.
	gaps []Gap
	// window names the entries read, for errors, if they are not all.
	window string
}

func newNames(s *Selection) (*names, error) {
	n := &names{selection: s, consumers: map[quotav1alpha1.ConsumerRef]bool{}, types: map[string]bool{}}
	if !s.Until.IsZero() {
		n.window = " before " + inUTC(s.Until)
	}
	if s.Consumer == "" {
		return n, nil
	}
	var err error
	n.consumer, err = consumername.Parse(s.Consumer)
	return n, err
}

// knowing is a source with a list of its consumers, available without reading entries.
type knowing interface {
	Consumers(ctx context.Context) ([]quotav1alpha1.ConsumerRef, error)
}

// paged is a source that finds the start of each page by reading up to it. For a long journal this takes too long.
type paged interface {
	// PageMax is how many entries a page has at most.
	PageMax() int
}

// query selects the necessary entries. These are the entries of one consumer if the name is exact, or if the source
// knows the consumer. Otherwise they are those of all consumers.
func (n *names) query(ctx context.Context, source journal.Source) (journal.Query, error) {
	q := journal.Query{Until: n.selection.Until}
	if n.selection.Consumer == "" {
		return q, nil
	}
	if ref, isExact := n.consumer.Exact(); isExact {
		q.Consumer = &ref
		return q, nil
	}
	of, isKnowing := source.(knowing)
	if !isKnowing {
		return q, nil
	}
	known, err := of.Consumers(ctx)
	if err != nil {
		return q, fmt.Errorf("find the consumer %s: %w; or name it as KIND.GROUP/NAME, with the kind as in its API, such as Organization", n.selection.Consumer, err)
	}
	matching := slices.DeleteFunc(slices.Clone(known), func(ref quotav1alpha1.ConsumerRef) bool { return !n.hasConsumer(ref) })
	switch {
	case len(matching) == 1:
		q.Consumer = &matching[0]
	case len(matching) == 0 && len(known) > 0:
		return q, n.checkConsumer()
	}
	return q, nil
}

func (n *names) hasConsumer(ref quotav1alpha1.ConsumerRef) bool {
	selects, isKnown := n.consumers[ref]
	if !isKnown {
		selects = n.selection.Consumer == "" || n.consumer.Matches(ref)
		n.consumers[ref] = selects
	}
	return selects
}

func (n *names) hasType(resourceType string) bool {
	selects, isKnown := n.types[resourceType]
	if !isKnown {
		selects = n.selection.ResourceType == "" || isNamed(n.selection.ResourceType, resourceType)
		n.types[resourceType] = selects
	}
	return selects
}

// isNamed reports whether a name stands for a resource type.
func isNamed(name, resourceType string) bool {
	return name == resourceType || name == path.Base(resourceType)
}

// check returns an error for a name of the selection without entries in the journal, and for an ambiguous name: of a
// consumer or of a resource type.
func (n *names) check() error {
	if err := n.checkConsumer(); err != nil {
		return err
	}
	return checkType(n.selection.ResourceType, n.types, n.window)
}

func (n *names) checkConsumer() error {
	known, selected := slices.Collect(maps.Keys(n.consumers)), []quotav1alpha1.ConsumerRef{}
	for ref, selects := range n.consumers {
		if selects {
			selected = append(selected, ref)
		}
	}
	switch {
	case n.selection.Consumer == "":
	case len(selected) == 0:
		return fmt.Errorf("the journal has no entry of a consumer %s%s%s", n.selection.Consumer, n.window, has(consumername.List(known), n.window))
	case len(selected) > 1:
		return fmt.Errorf("%s names several consumers: choose one of %s", n.selection.Consumer, strings.Join(consumername.List(selected), ", "))
	}
	return nil
}

// checkType returns an error if a name stands for none of the resource types, or for several.
func checkType(name string, types map[string]bool, window string) error {
	if name == "" || types[name] {
		return nil
	}
	known := slices.Sorted(maps.Keys(types))
	found := slices.DeleteFunc(slices.Clone(known), func(resourceType string) bool { return !isNamed(name, resourceType) })
	switch len(found) {
	case 0:
		return fmt.Errorf("the journal has no entry of a resource type %s%s%s", name, window, has(known, window))
	case 1:
		return nil
	default:
		return fmt.Errorf("%s stands for several resource types: name one of %s", name, strings.Join(found, ", "))
	}
}

// has ends the error for an unknown name with the known ones.
func has(known []string, window string) string {
	switch {
	case len(known) == 0 && window != "":
		return ": check the name and the times"
	case len(known) == 0:
		return ": check the name"
	case len(known) > namedMax:
		return fmt.Sprintf("; it has those of %s and %d more", strings.Join(known[:namedMax], ", "), len(known)-namedMax)
	default:
		return "; it has those of " + strings.Join(known, ", ")
	}
}

// errNoSource reports that a command has no journal to read.
var errNoSource = errors.New("there is no journal to read: name it with --journal")

// eachEntry calls f with the entries of a query.
func eachEntry(ctx context.Context, source journal.Source, query journal.Query, f func(*journal.Entry)) error {
	if source == nil {
		return errNoSource
	}
	for entry, err := range source.Entries(ctx, query) {
		if err != nil {
			return fmt.Errorf("read the journal: %w", err)
		}
		f(&entry)
	}
	return ctx.Err()
}

// sum returns a + b, or the nearest representable number.
func sum(a, b int64) int64 {
	switch total := a + b; {
	case a > 0 && b > 0 && total < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && total >= 0:
		return math.MinInt64
	default:
		return total
	}
}

// less returns a - b, or 0 if b is larger. A change of the smallest number is more than any amount.
func less(a, b int64) int64 {
	if b == math.MinInt64 {
		return math.MaxInt64
	}
	return max(0, sum(a, -b))
}

func inUTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }
