package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

// A reload shows the latest text, also beside a dead link.
func TestPreview(t *testing.T) {
	source := small(nil)
	handler := &preview{source: source}
	get := func(path string) (int, string) {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return recorder.Code, recorder.Body.String()
	}
	for path, want := range map[string]string{"/": "Till", "/docs/": "How do I", "/docs/tasks/pay.html": "Pay", "/site.css": "color-scheme", "/search-index.js": "searchIndex"} {
		if code, body := get(path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, without %q", path, code, want)
		}
	}
	for _, path := range []string{"/no.html", "/docs/tasks/", "/../go.mod"} {
		if code, _ := get(path); code != http.StatusNotFound {
			t.Errorf("%s: %d, want %d", path, code, http.StatusNotFound)
		}
	}
	source["docs/tasks/pay.md"] = &fstest.MapFile{Data: []byte("# Pay\n\nBring [change](no.md).\n")}
	if code, body := get("/docs/tasks/pay.html"); code != http.StatusOK || !strings.Contains(body, "Bring") {
		t.Errorf("after a change: %d\n%s", code, body)
	}
	source["docs/tasks/pay.md"] = &fstest.MapFile{Data: []byte("no title")}
	if code, body := get("/docs/tasks/pay.html"); code != http.StatusInternalServerError || !strings.Contains(body, "has no heading") {
		t.Errorf("without a title: %d\n%s", code, body)
	}
}

func indexOf(t *testing.T, files map[string]string) []record {
	t.Helper()
	data := strings.TrimSuffix(strings.TrimPrefix(files[searchIndex], "window.searchIndex = "), ";\n")
	var records []record
	if err := json.Unmarshal([]byte(data), &records); err != nil {
		t.Fatalf("%s: %v", searchIndex, err)
	}
	return records
}
