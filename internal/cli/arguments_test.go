package cli

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// Errors of a wrong command line are one sentence, without words of libraries.
func TestWrongCommandLines(t *testing.T) {
	for name, tt := range map[string]struct {
		reason    string
		arguments []string
		want      string
	}{
		"Command":  {"a suggestion belongs to the sentence", []string{"usages"}, `unknown command "usages" for "bursar"; did you mean usage?`},
		"Number":   {"strconv is a library", []string{"usage", "--near=foo"}, `--near: "foo" is not a whole number`},
		"Duration": {"an example says more", []string{"usage", "--for", "fast"}, `--for: "fast" is not a duration such as 30s, 1m or 2h`},
		"Argument": {"it says what is missing", []string{"backup"}, `bursar backup takes one argument, the FILE, but got 0; see bursar backup --help for examples`},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(*cobra.Command, []string) error { return nil }
			usage := &cobra.Command{Use: "usage", RunE: run}
			usage.Flags().Int("near", 0, "")
			usage.Flags().Duration("for", time.Second, "")
			root := New(Program{Name: program}, usage, &cobra.Command{Use: "backup", RunE: run, Args: OneArgument("the FILE")})
			root.SetArgs(tt.arguments)
			if err := root.Execute(); err == nil || inOneLine(err.Error()) != tt.want {
				t.Errorf("%s: got %v, want %s", tt.reason, err, tt.want)
			}
		})
	}
}

func TestDidYouMean(t *testing.T) {
	names := []string{"data-dir", "listen", "etcd-servers"}
	for name, tt := range map[string]struct{ reason, typed, want string }{
		"left out": {"one letter", "dta-dir", "did you mean --data-dir?"},
		"swapped":  {"two letters", "lisetn", "did you mean --listen?"},
		"begun":    {"a beginning will do", "etcd", "did you mean --etcd-servers?"},
		"foreign":  {"nothing is better than nonsense", "verbosity", ""},
		"empty":    {"there is nothing to go by", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DidYouMean("--", tt.typed, names); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
			}
		})
	}
}
