//go:build unix

package apiserver

import (
	"strings"
	"testing"
)

func TestOpenFiles(t *testing.T) {
	for most, isEnough := range map[uint64]bool{64: false, 255: false, 256: true, 1 << 20: true} {
		err := openFilesProblem(most)
		if (err == nil) != isEnough || err != nil && !strings.Contains(err.Error(), "needs at least 256: raise the limit with ulimit -n 1024") {
			t.Errorf("%d files: got %v", most, err)
		}
	}
}
