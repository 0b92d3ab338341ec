package journal_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
)

var web = quotav1alpha1.ConsumerRef{APIGroup: "resourcemanager.miloapis.com", Kind: "Project", Name: "web"}

func change(kind journal.Kind, sequence, change, used, limit int64) journal.Entry {
	e := journal.Entry{Consumer: web, Sequence: sequence, Kind: kind, ResourceType: "pods", Change: change, Used: used, Limit: limit}
	if kind == journal.LimitChanged {
		e.Grant = "team/a"
	}
	return e
}

func opened(sequence, used, limit int64) journal.Entry {
	return journal.Entry{Consumer: web, Sequence: sequence, Kind: journal.Opened, Opening: &journal.Opening{
		Limits:   []journal.Limit{{ResourceType: "pods", Grant: "team/a", Amount: limit}},
		Balances: []journal.Balance{{ResourceType: "pods", Amount: used}},
	}}
}

func TestReplay(t *testing.T) {
	inZone := func(e journal.Entry, zone string) journal.Entry {
		e.Dimensions = map[string]string{"zone": zone}
		return e
	}
	tests := map[string]struct {
		reason  string
		partial bool
		entries []journal.Entry
		want    journal.Opening
		wantErr string
	}{
		"Changes": {
			reason: "Limits and balances add up from nothing.",
			entries: []journal.Entry{
				change(journal.LimitChanged, 1, 10, 0, 10),
				inZone(change(journal.Admitted, 2, 3, 3, 10), "b"), inZone(change(journal.Admitted, 3, 4, 7, 10), "a"),
				inZone(change(journal.Released, 4, -2, 5, 10), "b"),
			},
			want: journal.Opening{
				Limits: []journal.Limit{{ResourceType: "pods", Grant: "team/a", Amount: 10}},
				Balances: []journal.Balance{
					{ResourceType: "pods", Dimensions: map[string]string{"zone": "a"}, Amount: 4},
					{ResourceType: "pods", Dimensions: map[string]string{"zone": "b"}, Amount: 1},
				},
			},
		},
		"Gone": {
			reason:  "What is back at zero is not in the state.",
			entries: []journal.Entry{opened(1, 1, 1), change(journal.Released, 2, -1, 0, 1), change(journal.LimitChanged, 3, -1, 0, 0)},
		},
		"GapOpened": {
			reason:  "An opened entry replaces the state after a gap.",
			entries: []journal.Entry{change(journal.LimitChanged, 1, 10, 0, 10), opened(20, 2, 5), change(journal.Admitted, 21, 1, 3, 5)},
			want: journal.Opening{
				Limits:   []journal.Limit{{ResourceType: "pods", Grant: "team/a", Amount: 5}},
				Balances: []journal.Balance{{ResourceType: "pods", Amount: 3}},
			},
		},
		"Gap": {
			reason:  "A missing entry is an error.",
			entries: []journal.Entry{change(journal.LimitChanged, 1, 10, 0, 10), change(journal.Admitted, 3, 1, 1, 10)},
			wantErr: "replay entry 3 (admitted) of Project web: the entry before it is number 1, and no opened entry explains the gap",
		},
		"GapAtStart": {
			reason:  "The first entry must be number 1 or an opened one.",
			entries: []journal.Entry{change(journal.Admitted, 3, 1, 1, 10)},
			wantErr: "older entries are missing",
		},
		"Twice": {
			reason:  "An entry counts once.",
			entries: []journal.Entry{opened(7, 0, 1), opened(7, 0, 1)},
			wantErr: "it comes after entry 7",
		},
		"WrongUsed": {
			reason:  "The running total of use must fit.",
			entries: []journal.Entry{opened(1, 2, 5), change(journal.Admitted, 2, 1, 4, 5)},
			wantErr: "add up to a use of 3 and a limit of 5 for pods, but it has 4 and 5",
		},
		"WrongLimit": {
			reason:  "The running total of the limit must fit.",
			entries: []journal.Entry{opened(1, 2, 5), change(journal.Admitted, 2, 1, 3, 6)},
			wantErr: "a limit of 5 for pods, but it has 3 and 6",
		},
		"NegativeUse": {
			reason: "A dimension set cannot release what it does not use.",
			entries: []journal.Entry{
				opened(1, 0, 5), inZone(change(journal.Admitted, 2, 1, 1, 5), "a"), inZone(change(journal.Released, 3, -1, 0, 5), "b"),
			},
			wantErr: "leaves a use of -1 for pods with the dimensions map[zone:b]",
		},
		"Partial": {
			reason:  "Without the beginning, totals count from the first entry.",
			partial: true,
			entries: []journal.Entry{change(journal.Released, 8, -3, 4, 9), change(journal.Admitted, 11, 1, 5, 9)},
		},
		"PartialWrongUsed": {
			reason:  "Without the beginning, the totals of later entries must fit.",
			partial: true,
			entries: []journal.Entry{change(journal.Released, 8, -3, 4, 9), change(journal.Admitted, 9, 1, 6, 9)},
			wantErr: "add up to a use of 5",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			replay := journal.Replay{Partial: tc.partial}
			var err error
			for _, e := range tc.entries {
				if err = replay.Add(e); err != nil {
					break
				}
			}
			if tc.wantErr != "" || err != nil {
				if err == nil || tc.wantErr == "" || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("%s Add returned %v, want an error with %q", tc.reason, err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, replay.State(web)); diff != "" {
				t.Errorf("%s The state differs (-want +got):\n%s", tc.reason, diff)
			}
			last := tc.entries[len(tc.entries)-1]
			if used, limit := replay.Totals(web, "pods"); used != last.Used || limit != last.Limit {
				t.Errorf("%s Totals returned %d and %d, want %d and %d", tc.reason, used, limit, last.Used, last.Limit)
			}
		})
	}
}
