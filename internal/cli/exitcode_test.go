package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/spf13/cobra"
)

func TestExitCode(t *testing.T) {
	for name, tt := range map[string]struct {
		reason    string
		answers   bool
		arguments []string
		err       error
		want      int
	}{
		"Yes":         {"the answer is yes", true, nil, nil, 0},
		"No":          {"the answer is no", true, nil, fmt.Errorf("wrapped: %w", No("it does not fit")), 1},
		"Failed":      {"there is no answer", true, nil, errors.New("no server"), 2},
		"WrongFlag":   {"there is no answer, either", true, []string{"--nothing"}, nil, 2},
		"OtherFailed": {"other commands have one code for all failures", false, nil, errors.New("no server"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			asked := &cobra.Command{Use: "ask", RunE: func(*cobra.Command, []string) error { return tt.err }}
			if tt.answers {
				AnswersByExitCode(asked, "it is so", "it is not")
			}
			root := New(Program{Name: program, Version: "test"}, asked)
			root.SetArgs(append([]string{"ask"}, tt.arguments...))
			if got := exitCode(root.ExecuteContextC(t.Context())); got != tt.want {
				t.Errorf("%s: got exit code %d, want %d", tt.reason, got, tt.want)
			}
		})
	}
}
