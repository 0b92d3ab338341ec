package process

import (
	"os"
	"strconv"
	"testing"
)

// Kills returns how often a test kills processes: the variable KILLS, or a few times.
func Kills(t testing.TB, few int) int {
	t.Helper()
	return Count(t, "KILLS", few)
}

// Count returns the number in an environment variable, or few if it is not set.
func Count(t testing.TB, variable string, few int) int {
	t.Helper()
	asked := os.Getenv(variable)
	if asked == "" {
		return few
	}
	count, err := strconv.Atoi(asked)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return count
}
