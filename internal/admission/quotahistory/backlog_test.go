package quotahistory_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/quotahistory"
)

// backlog is a number of waiting entries.
type backlog struct {
	entries int
	oldest  time.Duration
}

func (b backlog) Waiting() (int, time.Duration) { return b.entries, b.oldest }

func TestBehind(t *testing.T) {
	late := backlog{12, 40 * time.Second}
	tests := map[string]struct {
		reason      string
		permissions *permissions
		backlog     quotahistory.Backlog
		limit       int32
		want        []string
	}{
		"Auditor":  {"who reads it must know", may(everything), late, 0, []string{"the journal is 40s behind: 12 entries of all consumers wait until it can store them"}},
		"Tenant":   {"others' changes are nobody's business", may(figures), late, 0, []string{"the journal is 40s behind: later changes are missing"}},
		"Page":     {"more follows anyhow", may(everything), late, 1, nil},
		"UpToDate": {"entries always wait for a moment", may(everything), backlog{12, time.Second}, 0, nil},
		"Unknown":  {"there is no sink here", may(everything), nil, 0, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			q := question{permissions: tt.permissions, spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme, Limit: tt.limit}}
			reader := quotahistory.New(quotahistory.Dependencies{
				Journal: &memory{entries: admissions(2)}, Consumers: consumers{}, Permissions: tt.permissions, Backlog: tt.backlog,
			})
			response, _ := q.ask(t, reader.Handler())
			if diff := cmp.Diff(tt.want, response.Warnings); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}
