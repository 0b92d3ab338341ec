package robustness

import (
	"os"
	"testing"

	"github.com/bursar/bursar/test/process"
	"github.com/bursar/bursar/test/quiet"
)

// briefRequests makes the quota of cut-off creates return early.
var briefRequests = []string{"--request-timeout", process.RequestTimeout.String()}

// TestMain silences the logs of client libraries: refused connections are the subject of these tests.
func TestMain(m *testing.M) {
	quiet.Libraries()
	process.Parallel(4)
	os.Exit(m.Run())
}
