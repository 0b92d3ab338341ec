// Package quotahistory answers QuotaHistories: the past of a consumer's quota, with times and actors. It reads pages
// of a consumer's journal from a [journal.Source], and leaves out everything that the user may not see. It writes
// nothing, and nobody stores a QuotaHistory.
//
// Package operator serves it.
package quotahistory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	quotasight "github.com/bursar/bursar/internal/admission/sight"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/journal"
)

// Dependencies are the dependencies of a reader.
type Dependencies struct {
	// Journal has the entries. Without it, the handler denies every QuotaHistory.
	Journal journal.Source
	// Consumers has the namespaces of consumers.
	Consumers Consumers
	// Permissions limit the answer to the entries and fields that the user may see.
	Permissions quotasight.Permissions
	// Backlog knows the entries missing in the journal. Default: nobody knows.
	Backlog Backlog
	// Log receives the reasons of unreadable journals. Default: nothing is logged.
	Log logr.Logger
}

// Consumers has the namespaces of consumers.
type Consumers interface {
	// ConsumerNamespace returns the namespace with the quota objects of a consumer.
	ConsumerNamespace(consumer quotav1alpha1.ConsumerRef) string
}

// Backlog has entries on their way to the journal's place.
type Backlog interface {
	// Waiting returns how many entries wait, and for how long the oldest has waited.
	Waiting() (entries int, oldest time.Duration)
}

// Reader answers QuotaHistories. It is safe for concurrent use if its dependencies are.
type Reader struct {
	Dependencies
	// turns bounds the histories in progress.
	turns *semaphore.Weighted
	// damage has the damaged lines met since the start.
	damage *journal.Damage
	health health
}

const (
	// readsAtOnce is the number of histories in progress at the same time. Each may read a whole journal, and creates
	// must not wait for it.
	readsAtOnce = 2
	// workersMax is how many goroutines read and decode for one history. The operator has better use for the processors.
	workersMax = 1
	// pageBytesMax is the size, in bytes, at which a page takes no more entries. One Opened entry may have a hundred
	// kilobytes.
	pageBytesMax = 1 << 20
	// behindMin is how long an entry waits until users get a warning. A bucket gets entries every two seconds.
	behindMin = 10 * time.Second
	// checkEvery is how many entries may pass between two looks at the time.
	checkEvery = 256
)

// New returns a reader with dependencies.
func New(deps Dependencies) *Reader {
	r := &Reader{Dependencies: deps, turns: semaphore.NewWeighted(readsAtOnce), damage: &journal.Damage{}}
	if deps.Journal != nil {
		r.Journal = journal.Tolerant{Source: deps.Journal, Damage: r.damage}
	}
	return r
}

// errLate means that the time was up before the first entry of a page.
var errLate = errors.New("time is up")

// errNoEntries means that the journal has no entry of the consumer at all.
var errNoEntries = errors.New("no entries")

// sourceError means that the journal was unreadable.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// page reads the entries after a token. A page is shorter than its limit if the time is up, the entries are large, or
// sight has used up its lookups of permissions. Then the continue token says where the next one begins.
func (r *Reader) page(ctx context.Context, spec *quotav1alpha1.QuotaHistorySpec, from token, sight *sight) (*quotav1alpha1.QuotaHistoryStatus, error) {
	status, size, passed := &quotav1alpha1.QuotaHistoryStatus{}, 0, 0
	more := func() (*quotav1alpha1.QuotaHistoryStatus, error) {
		if len(status.Entries) == 0 {
			return nil, errLate
		}
		status.Continue = from.String()
		return status, nil
	}

	for entry, err := range r.Journal.Entries(ctx, queryOf(spec, from)) {
		switch {
		case ctx.Err() != nil:
			return more()
		case err != nil:
			return nil, sourceError{err}
		}

		if entry.Sequence <= from.Sequence {
			if passed++; passed%checkEvery == 0 && ctx.Err() != nil {
				return more()
			}
			continue
		}
		if len(status.Entries) == limitOf(spec) || size >= pageBytesMax {
			return more()
		}

		shown, err := sight.show(ctx, &entry)
		switch {
		case errors.Is(err, quotasight.ErrLookups) || ctx.Err() != nil:
			return more()
		case err != nil:
			return nil, err
		}

		content, err := json.Marshal(shown)
		if err != nil {
			return nil, fmt.Errorf("encode entry %d: %w", entry.Sequence, err)
		}
		size += len(content)
		status.Entries = append(status.Entries, *shown)
		from.Sequence, from.Time = entry.Sequence, entry.Time
	}

	if ctx.Err() != nil { // a source may end early without an error
		return more()
	}
	return status, nil
}

// checkEntries follows a question without a found entry. It returns errNoEntries if the journal has no entry of the
// consumer at all. Otherwise users would take a wrong name for a consumer without changes.
func (r *Reader) checkEntries(ctx context.Context, spec *quotav1alpha1.QuotaHistorySpec) error {
	switch {
	case spec.Continue != "":
		return nil
	case spec.ResourceType == "" && spec.Since == nil && spec.Until == nil:
		return errNoEntries
	}
	for _, err := range r.Journal.Entries(ctx, journal.Query{Consumer: &spec.ConsumerRef, WorkersMax: workersMax}) {
		if err != nil && ctx.Err() == nil {
			return sourceError{err}
		}
		return nil
	}
	if ctx.Err() != nil { // nobody knows
		return nil
	}
	return errNoEntries
}

// backlogWarnings report a journal without the latest changes. Only users with full sight learn the number of missing
// entries, because other consumers have some of them.
func (r *Reader) backlogWarnings(sight *sight) []string {
	if r.Backlog == nil {
		return nil
	}
	switch entries, oldest := r.Backlog.Waiting(); {
	case oldest < behindMin:
		return nil
	case sight.seesAll:
		return []string{fmt.Sprintf("the journal is %s behind: %d entries of all consumers wait until it can store them", oldest.Round(time.Second), entries)}
	default:
		return []string{fmt.Sprintf("the journal is %s behind: later changes are missing", oldest.Round(time.Second))}
	}
}

// damageWarnings report skipped lines. Nobody knows whose they are. Only users with full sight learn the place, because
// it may name files and stores.
func (r *Reader) damageWarnings(sight *sight) []string {
	count := r.damage.Count()
	if count == 0 {
		return nil
	}
	text := "skipped " + message.Count(count, "damaged line", "damaged lines") + " of the journal, so entries may be missing"
	if sight.seesAll {
		text += ": " + r.damage.Example()
	}
	return []string{text}
}

// stepBack is the largest step back in time from one entry to the next. Replicas record admissions some seconds late,
// and their clocks differ.
const stepBack = 10 * time.Minute

// queryOf returns the query for a page. The query leaves out entries much older than the last entry of the page
// before. So later pages do not read the journal from its beginning.
func queryOf(spec *quotav1alpha1.QuotaHistorySpec, from token) journal.Query {
	query := journal.Query{Consumer: &spec.ConsumerRef, ResourceType: spec.ResourceType, WorkersMax: workersMax}
	if spec.Since != nil {
		query.Since = spec.Since.Time
	}
	if spec.Until != nil {
		query.Until = spec.Until.Time
	}
	if earliest := from.Time.Add(-stepBack); !from.Time.IsZero() && earliest.After(query.Since) {
		query.Since = earliest
	}
	return query
}

func limitOf(spec *quotav1alpha1.QuotaHistorySpec) int {
	if spec.Limit == 0 {
		return quotav1alpha1.HistoryLimitDefault
	}
	return int(spec.Limit)
}
