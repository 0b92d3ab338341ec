package events_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bursar/bursar/internal/kube/events"
)

// notes keeps the notes of events.
type notes []string

func (n *notes) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	*n = append(*n, fmt.Sprintf(note, args...))
}

func TestNotesAreCut(t *testing.T) {
	const bytesMax = 1024 // the API server's bound
	for name, tc := range map[string]struct{ reason, text, want string }{
		"short":       {"it is kept", "100% of it", "100% of it"},
		"longest":     {"it is kept", strings.Repeat("a", bytesMax), strings.Repeat("a", bytesMax)},
		"too long":    {"what is cut off can be told", strings.Repeat("a", bytesMax+1), strings.Repeat("a", bytesMax-3) + "..."},
		"within rune": {"no character is cut in two", strings.Repeat("é", bytesMax), strings.Repeat("é", bytesMax/2-2) + "..."},
	} {
		t.Run(name, func(t *testing.T) {
			var got notes
			events.NewRecorder(&got).Eventf(nil, nil, "Normal", "Reason", "Act", "%s", tc.text)
			if len(got) != 1 || got[0] != tc.want || !utf8.ValidString(got[0]) {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
