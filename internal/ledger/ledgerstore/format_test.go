package ledgerstore_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerapi"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// stub is an API server with one ledger, in any form.
type stub struct {
	mu     sync.Mutex
	stored string
	writes int
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodGet {
		s.writes++
		body, _ := io.ReadAll(r.Body)
		s.stored = string(body)
	}
	_, _ = io.WriteString(w, s.stored)
}

// This version neither reads nor writes the ledger of a newer version, and its error gives the reason. A ledger without
// a number is from an earlier version.
func TestLedgerFormat(t *testing.T) {
	const spec = `"consumerRef":{"apiGroup":"platform","kind":"Organization","name":"acme"},"sequence":3`
	tests := map[string]struct {
		reason, spec string
		wantFormat   int64 // of the error
	}{
		"none":                   {"what earlier versions have written is read", spec, 0},
		"this":                   {"what this version has written is read", spec + `,"format":3,"slices":[]`, 0},
		"a later one":            {"what is unknown would be lost", spec + `,"format":5,"holds":["new"]`, 5},
		"a later one, all other": {"the number counts, also where nothing else can be read", spec + `,"format":5,"reservations":{"compressed":"x"}`, 5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			api := &stub{stored: `{"metadata":{"name":"l","resourceVersion":"7"},"spec":{` + tt.spec + `}}`}
			server := httptest.NewServer(api)
			t.Cleanup(server.Close)
			storage, err := ledgerstore.NewAPIStorage(&rest.Config{Host: server.URL, QPS: -1}, server.Client(), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = ledgerstore.New(t.Context(), storage).Apply(t.Context(), acme, ledgerstore.Request{Separately: true, Overdraft: true})
			if err == nil {
				_, err = ledgerstore.New(t.Context(), storage).Apply(t.Context(), acme, ledgerstore.Request{Reservations: nil, TakesOver: true})
			}
			var unknown *ledgerapi.FormatError
			if errors.As(err, &unknown) != (tt.wantFormat > 0) || unknown != nil && unknown.Format != tt.wantFormat {
				t.Errorf("%s: got %v", tt.reason, err)
			}
			if unknown != nil && (api.writes > 0 || !strings.Contains(err.Error(), "a newer version of Bursar has written")) {
				t.Errorf("%s: written %d times, and told %v", tt.reason, api.writes, err)
			}
		})
	}
}

// A stored ledger has the number of the earliest format for its content: during an update, replicas of the earlier
// version still work.
func TestLedgerIsStoredWithItsFormat(t *testing.T) {
	api := &stub{stored: `{"metadata":{"name":"l","resourceVersion":"7"},"spec":{"consumerRef":{"apiGroup":"platform","kind":"Organization","name":"acme"}}}`}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	storage, err := ledgerstore.NewAPIStorage(&rest.Config{Host: server.URL, QPS: -1}, server.Client(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Store: ledgerstore.New(t.Context(), storage)}
	p.limit(t, 10)
	api.expect(t, 1)
	asked := ledger.Reservation{Key: "policy/object", Charges: charges(1), Claim: "{}"}
	if _, err := storagetest.Reserve(t.Context(), p, acme, asked); err != nil {
		t.Fatal(err)
	}
	api.expect(t, 1)
	asked.Key, asked.Awaits = "policy/observed", &ledger.Awaited{Kind: "v1/ConfigMap", ID: "observed"}
	if _, err := storagetest.Reserve(t.Context(), p, acme, asked); err != nil {
		t.Fatal(err)
	}
	api.expect(t, 4)
}

// expect checks the format of the stored ledger.
func (s *stub) expect(t *testing.T, format int64) {
	t.Helper()
	var stored quotav1alpha1.ConsumerLedger
	err := json.Unmarshal([]byte(s.stored), &stored)
	if err != nil || stored.Spec.Format != format || len(stored.Spec.Grants) != 1 {
		t.Errorf("stored is %s: %v", s.stored, err)
	}
}
