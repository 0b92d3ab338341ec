package restore

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/cli/backup"
)

// TestNamespacesDiffer finds changed, missing and added labels, and shows them.
func TestNamespacesDiffer(t *testing.T) {
	t.Parallel()
	before := map[string]string{"same": "x", "changed": "x", "gone": "x"}
	now := map[string]string{"same": "x", "changed": "y", "new": "y"}
	report := newReport(&backup.Manifest{FormatVersion: 2}, true)
	report.marks = appendDifferent(nil, "team-a", "labels", before, now)
	if appendDifferent(nil, "team-a", "labels", nil, nil) != nil {
		t.Errorf("without labels there is a difference")
	}
	sortMarks(report.marks)
	var text strings.Builder
	if err := report.Print(&text, ""); err != nil {
		t.Fatal(err)
	}
	want := `KIND   IN BACKUP   RESTORED   THERE BEFORE   REPLACED   LEFT OUT

NAMESPACE   LABEL OR ANNOTATION   IN BACKUP   HERE
team-a      changed               x           y
team-a      gone                  x           <none>
team-a      new                   <none>      y

Warning: these namespaces differ from the backup, and quota may select namespaces by these labels and annotations. Set them as in the backup to have the same quota.

Nothing was changed: this was a dry run.
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("the report (-want +got):\n%s", diff)
	}
}

// TestFirstFormatLacksLabels warns about namespaces made without labels.
func TestFirstFormatLacksLabels(t *testing.T) {
	t.Parallel()
	for format, want := range map[int]bool{1: true, 2: false} {
		report := newReport(&backup.Manifest{FormatVersion: format}, false)
		report.missingNamespaces = []string{"team-a"}
		var text strings.Builder
		if err := report.Print(&text, ""); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(text.String(), "without the labels of namespaces"); got != want {
			t.Errorf("format %d: the report is\n%s", format, &text)
		}
	}
}
