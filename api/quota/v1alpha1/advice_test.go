package v1alpha1_test

import (
	"strings"
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestCheckExceededAdvice(t *testing.T) {
	for name, tc := range map[string]struct{ reason, text, want string }{
		"none":        {"there need be none", "", ""},
		"plain":       {"a text is fine", "Ask support.", ""},
		"name":        {"the name of the consumer may stand anywhere", "See https://example.com/{{name}}?{{name}}.", ""},
		"misspelt":    {"nobody would be named", "Ask {{nam}}.", "there is no placeholder {{nam}}"},
		"of policies": {"policies have others", "Ask {{.trigger.metadata.name}}.", "there is no placeholder {{.trigger.metadata.name}}"},
		"open":        {"it would be shown as it stands", "Ask {{name.", "not closed"},
		"lines":       {"a message is one line", "Ask\nsupport.", "one line"},
	} {
		err := quotav1alpha1.CheckExceededAdvice(tc.text)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %s: got %v, want %q", name, tc.reason, err, tc.want)
		}
	}
}
