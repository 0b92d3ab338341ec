package message

import "testing"

// TestUnreached proves that the words for a webhook out of reach keep the reason and drop the path of the webhook.
func TestUnreached(t *testing.T) {
	const down = `Internal error occurred: failed calling webhook "enforce.quota.miloapis.com": failed to call webhook: ` +
		`Post "https://localhost:22110/2993152-30c74e69/enforce/1?timeout=10s": dial tcp 127.0.0.1:22110: connect: connection refused`
	tests := map[string]struct {
		reason, text, want string
		isUnreached        bool
	}{
		"Down": {
			"a tenant must not learn the path", down,
			`Internal error occurred: failed calling webhook "enforce.quota.miloapis.com": failed to call webhook: dial tcp 127.0.0.1:22110: connect: connection refused`, true,
		},
		"Other":  {"the webhook of somebody else", `failed calling webhook "x.example.com": no endpoints`, `failed calling webhook "x.example.com": no endpoints`, false},
		"Denial": {"Bursar has answered", "exceeded quota: cpu", "exceeded quota: cpu", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := WithoutURLs(tt.text); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
			}
			if got := IsUnreached(tt.text); got != tt.isUnreached {
				t.Errorf("%s: reached reported wrongly, got %v", tt.reason, got)
			}
		})
	}
}
