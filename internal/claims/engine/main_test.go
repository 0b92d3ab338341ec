package engine_test

import (
	"os"
	"testing"

	"github.com/bursar/bursar/test/quiet"
)

func TestMain(m *testing.M) {
	quiet.Libraries()
	os.Exit(m.Run())
}
