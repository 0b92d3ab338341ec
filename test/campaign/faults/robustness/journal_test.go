package robustness

import (
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/kit"
	"github.com/bursar/bursar/test/process"
)

// journalLag bounds how long the journal may follow behind the ledgers.
const journalLag = time.Minute

// restart starts a server again on the data directory of a killed one, and checks the journal.
func restart(t *testing.T, dir string) (*process.Server, client.Client) {
	t.Helper()
	server := process.Start(t, dir, briefRequests...)
	api := connect(t, server)
	checkJournal(t, api, dir)
	return server, api
}

// checkJournal waits until the journal gives the ledgers exactly.
func checkJournal(t *testing.T, api client.Client, dir string) {
	t.Helper()
	began := time.Now()
	await.NoError(t, journalLag, func() error { return kit.CheckJournal(t.Context(), api, filepath.Join(dir, "journal")) })
	t.Logf("the journal gives the ledgers, after %s", time.Since(began).Round(time.Millisecond))
}
