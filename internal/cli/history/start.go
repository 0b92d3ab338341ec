package history

import (
	"context"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
)

// Start is the use of a consumer at the start of a window.
type Start struct {
	// Used is in base units.
	Used int64
	// Time is the start of the window, or the time of an Opened entry after it: the use before that is unknown.
	Time time.Time
}

// ReadStart returns a consumer's use of a resource type at a time. It reads only the first entry after this time, and
// derives the use before it. Without such an entry it returns nil: there is no change since, or no record.
func ReadStart(ctx context.Context, source journal.Source, consumer quotav1alpha1.ConsumerRef, resourceType string, at time.Time) (*Start, error) {
	query := journal.Query{Consumer: &consumer, ResourceType: resourceType, Since: at}
	for entry, err := range source.Entries(ctx, query) {
		if err != nil {
			return nil, err
		}
		s := state{levels: map[string]level{}}
		if entry.Kind == journal.Opened { // the use before it is no change
			return &Start{Used: s.open(&entry, resourceType).after.used, Time: entry.Time}, nil
		}
		return &Start{Used: s.change(&entry).before.used, Time: at}, nil
	}
	return nil, nil //nolint:nilnil // nothing has changed
}
