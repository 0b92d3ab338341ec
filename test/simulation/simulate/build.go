package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// patch replaces lines of the Go runtime by lines without chance: before is there so many times.
type patch struct {
	file, before, after string
	times               int
}

// patches make a process with one thread, without garbage collection, repeat itself exactly. In a bubble of package
// synctest the clock is simulated; these are the other sources of chance.
var patches = []patch{
	// The order of maps and of select, and the results of package rand.
	{"runtime/rand.go", "globalRand.state.Init(*seed)", "clear(seed[:]); globalRand.state.Init(*seed)", 1},
	// Threads of the runtime have random numbers of their own, and it matters which thread runs a goroutine.
	{"runtime/rand.go", "mp := getg().m", "mp := &m0", 2},
	// Code before the start of a bubble does not always take the same random numbers.
	{"runtime/synctest.go", "func synctestRun(f func()) {\n",
		"func synctestRun(f func()) {\n\tm0.chacha8.Init64([4]uint64{1, 2, 3, 4})\n\tm0.cheaprand = 1\n\tgetg().m.p.ptr().schedtick = 0\n", 1},
	// Maps made before the start of a bubble keep their first order.
	{"internal/runtime/maps/map.go", "m.seed = uintptr(rand())", "m.seed = 1", 4},
	{"internal/sync/hashtriemap.go", "ht.seed = uintptr(runtime_rand())", "ht.seed = 1", 1},
	// The monitor interrupts goroutines by the real time.
	{"runtime/proc.go", "\tlastgomaxprocs := int64(0)\n\tlasttrace := int64(0)\n", "\tfor { usleep(1 << 30) }\n\tlastgomaxprocs := int64(0)\n\tlasttrace := int64(0)\n", 1},
	// During the initialization of packages, the first goroutine has a thread for itself, and the number of others
	// depends on the real time. The memory of their stacks moves everything else, and maps by pointers take another
	// order.
	{"runtime/proc.go", "\n\tlockOSThread()\n", "\n", 1},
	{"runtime/proc.go", "\tneedUnlock := true\n", "\tneedUnlock := false\n", 1},
	{"runtime/proc.go", "\tneedUnlock = false\n\tunlockOSThread()\n", "", 1},
	// A mutex gives a waiter precedence by the real time.
	{"internal/sync/mutex.go", "starvationThresholdNs = 1e6", "starvationThresholdNs = 1e18", 1},
}

// build builds the tests of package simulation on a patched runtime, and returns the file. replaced are other files to
// replace, each by another.
func build(folder string, replaced map[string]string) (string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	overlay := maps.Clone(replaced)
	if overlay == nil {
		overlay = map[string]string{}
	}
	output, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find Go: %w", err)
	}
	root := strings.TrimSpace(string(output))
	patched := map[string]string{} // contents by file
	for _, p := range patches {
		file := filepath.Join(root, "src", p.file)
		source, isPatched := patched[file]
		if !isPatched {
			content, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			source = string(content)
		}
		if strings.Count(source, p.before) != p.times {
			return "", fmt.Errorf("%s of this version of Go does not have %q so many times: see what has become of it, and mend the patch", p.file, p.before)
		}
		patched[file] = strings.ReplaceAll(source, p.before, p.after)
	}
	for file, source := range patched {
		by, err := filepath.Abs(filepath.Join(folder, strings.ReplaceAll(file[len(root):], "/", "-")))
		if err != nil {
			return "", err
		}
		if err := writeUnlessSame(by, []byte(source)); err != nil {
			return "", err
		}
		overlay[file] = by
	}
	list, err := writeOverlay(folder, overlay)
	if err != nil {
		return "", err
	}
	tests := filepath.Join(folder, "simulation.test")
	command := exec.Command("go", "test", "-c", "-overlay", list, "-o", tests, "./test/simulation")
	command.Env = append(os.Environ(), "GOEXPERIMENT=norandomizedheapbase64", "CGO_ENABLED=0")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("build the simulation: %w", err)
	}
	return tests, nil
}

// writeOverlay writes the list of replaced files for the go command, and returns its name.
func writeOverlay(folder string, replaced map[string]string) (string, error) {
	content, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	list := filepath.Join(folder, "overlay.json")
	return list, os.WriteFile(list, content, 0o600)
}

// isRed reports whether a test fails after the replacement of files. test is its package and its name.
func isRed(folder string, replaced map[string]string, test string) (bool, error) {
	list, err := writeOverlay(folder, replaced)
	if err != nil {
		return false, err
	}
	of, name, _ := strings.Cut(test, " ")
	output, err := exec.Command("go", "test", "-overlay", list, "-run", name, of).CombinedOutput()
	if err != nil && !strings.Contains(string(output), "--- FAIL") {
		return false, fmt.Errorf("%s: %w: %s", test, err, output)
	}
	return err != nil, nil
}

// writeUnlessSame writes a file, unless it has the content already: a build takes a file by its time.
func writeUnlessSame(file string, content []byte) error {
	if before, err := os.ReadFile(file); err == nil && string(before) == string(content) {
		return nil
	}
	return os.WriteFile(file, content, 0o600)
}
