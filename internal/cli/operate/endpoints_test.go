package operate

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCheckHandler checks the reason in the answer of a replica not ready.
func TestCheckHandler(t *testing.T) {
	for want, problem := range map[string]error{"ok": nil, "policies are being loaded": errors.New("policies are being loaded")} {
		answer := httptest.NewRecorder()
		checkHandler(func() error { return problem }).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if isOK := answer.Code == http.StatusOK; isOK != (problem == nil) || strings.TrimSpace(answer.Body.String()) != want {
			t.Errorf("%v was told by %d %q", problem, answer.Code, answer.Body)
		}
	}
}
