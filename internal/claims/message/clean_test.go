package message

import "testing"

func TestClean(t *testing.T) {
	for name, tt := range map[string]struct{ reason, text, want string }{
		"Plain":      {"letters of all languages stay", "Größe 数量 حصة\n\tend\r\n", "Größe 数量 حصة\n\tend\r\n"},
		"Bidi":       {"an override turns the rest of the line round", "gpus \u202e001\u202c", "gpus 001"},
		"Isolate":    {"an isolate does so, too", "a\u2066b\u2069c\u061c", "abc"},
		"Zero width": {"a hidden difference between two names", "te\u200bam\u200d\u2060\ufeff\u00ad", "team"},
		"Tags":       {"a hidden text", "ok\U000e0061\U000e0062", "ok"},
		"Filler":     {"an invisible letter", "a\u115f\u3164b", "ab"},
		"Escape":     {"a sequence of the terminal", "a\x1b[2Jb\u009bc\x00\x7f", "a[2Jbc"},
		"Lines":      {"line ends that not everybody shows as such", "a\u2028b\u2029c", "abc"},
		"Arabic":     {"a mark with a shape", "\u0600\u0661", "\u0600\u0661"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Clean(tt.text); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
			}
		})
	}
}
