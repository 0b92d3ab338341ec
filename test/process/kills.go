package process

import (
	"os"
	"strconv"
	"testing"
)

// Kills returns how often a test kills processes: the variable KILLS, or a few times.
func Kills(t testing.TB, few int) int {
	t.Helper()
	asked := os.Getenv("KILLS")
	if asked == "" {
		return few
	}
	kills, err := strconv.Atoi(asked)
	if err != nil {
		t.Fatalf("KILLS: %v", err)
	}
	return kills
}
