package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Each fault fits into the code as it is.
func TestFaultsFit(t *testing.T) {
	all := slices.Concat(countedFaults, faults)
	for i := range all {
		f := &all[i]
		source, err := os.ReadFile(filepath.Join("../../..", f.file))
		if err != nil {
			t.Error(err)
			continue
		}
		if n := bytes.Count(source, []byte(f.before)); n != 1 {
			t.Errorf("%s: %s has this %d times: %s", f.what, f.file, n, f.before)
		}
	}
}
