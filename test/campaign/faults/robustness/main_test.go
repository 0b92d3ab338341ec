package robustness

import (
	"os"
	"testing"

	"github.com/bursar/bursar/test/process"
	"github.com/bursar/bursar/test/quiet"
)

// briefRequests has quota for creates that were cut off come back early.
var briefRequests = []string{"--request-timeout", process.RequestTimeout.String()}

// TestMain silences what client libraries log: refused connections are what these tests are about.
func TestMain(m *testing.M) {
	quiet.Libraries()
	process.Parallel(4)
	os.Exit(m.Run())
}
