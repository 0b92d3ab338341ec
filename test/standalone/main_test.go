package standalone

import (
	"os"
	"testing"

	"github.com/bursar/bursar/test/quiet"
)

// TestMain silences what client libraries log while servers end.
func TestMain(m *testing.M) {
	quiet.Libraries()
	os.Exit(m.Run())
}
