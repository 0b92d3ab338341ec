package robustness

import (
	"os"
	"testing"

	"github.com/bursar/bursar/test/quiet"
)

// TestMain silences what client libraries log: refused connections are what these tests are about.
// briefRequests has quota for creates that were cut off given back after 25 s, in place of 70.
var briefRequests = []string{"--request-timeout", "15s"}

func TestMain(m *testing.M) {
	quiet.Libraries()
	os.Exit(m.Run())
}
