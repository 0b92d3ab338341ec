package robustness

import (
	"os"
	"testing"

	"github.com/bursar/bursar/test/quiet"
)

// TestMain silences what client libraries log: refused connections are what these tests are about.
func TestMain(m *testing.M) {
	quiet.Libraries()
	os.Exit(m.Run())
}
