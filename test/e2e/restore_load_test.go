package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/cli/restore"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/kit"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// TestRestoreUnderLoad restores while objects come and go: something is in flight at each look at the ledger. It agrees
// with its claims.
func TestRestoreUnderLoad(t *testing.T) {
	t.Parallel()
	s := start(t, standalone.Options{})
	platform.DeclareMaps(t, s.Admin, 1_000_000)
	platform.ProtectMapsByClaims(t, s.Admin, "ConfigMap")
	options := restore.Options{Config: s.Config, Path: backUp(t, s), Timeout: time.Minute}

	stop := loadMaps(t, s, 1)
	for range 3 {
		if text := restored(t, options); !strings.Contains(text, "The ledgers agree with the claims.") {
			t.Errorf("the report is\n%s", text)
		}
	}

	stop()
}

// loadMaps creates and deletes maps with four clients, numbered from first, until stop or the end of the test. It
// returns once some are there.
func loadMaps(t *testing.T, s *server.Server, first int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	load := &kit.Churn{}
	stop = func() {
		cancel()
		load.Wait()
	}
	t.Cleanup(stop)
	for number := range 4 {
		load.Start(ctx, t, s.Admin, first+number)
	}
	await.NoError(t, soon, func() error {
		if created := load.Created.Load(); created < 50 {
			return fmt.Errorf("%d objects were created, want 50", created)
		}
		return nil
	})
	return stop
}
