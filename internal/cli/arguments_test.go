package cli

import "testing"

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
