// Command simulate runs seeds of package simulation, each in a process that repeats itself exactly: one thread, no
// garbage collection, and a Go runtime without chance (see patches). So a failed seed fails again, with the same trace.
// It runs at the root of the repository.
//
//	make simulate SEEDS=2000    # the seeds 0 to 1999, on all CPUs
//	make simulate SEED=17       # one, with its trace
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bursar/bursar/test/simulation"
)

// folder has the built files. The go command takes it for no package.
const folder = "bin/.simulation"

// seedTimeout bounds the real time of a seed: a thousand times the usual time, for machines with other work.
const seedTimeout = 2 * time.Minute

func main() {
	seed := flag.Int("seed", -1, "run this seed only, and print its trace")
	seeds := flag.Int("seeds", 2000, "how many seeds to run")
	first := flag.Int("first", 0, "the first seed")
	enough := flag.Int("enough", 5, "stop after so many seeds that failed")
	planted := flag.String("planted", "", "plant the faults that match this expression in Bursar's code instead, and print what finds each of them")
	flag.Parse()
	err := error(nil)
	if *planted != "" {
		err = plantAll(*planted, *seeds)
	} else {
		err = run(*first, *seeds, *seed, *enough)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(first, seeds, only, enough int) error {
	tests, err := build(folder, nil)
	if err != nil {
		return err
	}
	if only >= 0 {
		output, err := runSeed(tests, only, true)
		fmt.Print(string(output))
		return err
	}
	began := time.Now()
	done, failed := runAll(os.Stdout, tests, first, seeds, enough)
	fmt.Printf("%d seeds in %s, %d failed\n", done, time.Since(began).Round(time.Second), len(failed))
	if len(failed) > 0 {
		return fmt.Errorf("replay one with its trace: make simulate SEED=%d", slices.Min(failed))
	}
	return nil
}

// runAll runs the kept seeds, and others, on all CPUs until enough have failed. It writes the failures to out, and
// returns how many seeds it ran.
func runAll(out io.Writer, tests string, first, seeds, enough int) (done int, failed []int) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	all := make([]int, 0, seeds)
	for _, seed := range simulation.Kept {
		all = append(all, int(seed))
	}
	for seed := first; seed < first+seeds; seed++ {
		if !slices.Contains(simulation.Kept, uint64(seed)) {
			all = append(all, seed)
		}
	}
	for range runtime.NumCPU() {
		workers.Go(func() {
			for {
				mu.Lock()
				if len(all) == 0 || len(failed) >= enough {
					mu.Unlock()
					return
				}
				seed := all[0]
				all = all[1:]
				mu.Unlock()
				output, err := runSeed(tests, seed, false)
				mu.Lock()
				done++
				if err != nil {
					failed = append(failed, seed)
					fmt.Fprintf(out, "seed %d: %v\n%s", seed, err, violations(output))
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return done, failed
}

// runSeed runs a seed, and returns its output.
func runSeed(tests string, seed int, withTrace bool) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), seedTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, tests, "-test.run=TestSeeds", "-test.v", "-test.timeout=0")
	trace := "TRACE=0" // an environment of another size would move everything in memory
	if withTrace {
		trace = "TRACE=1"
	}
	command.Env = []string{"SEED=" + strconv.Itoa(seed), trace, "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1,memprofilerate=0"}
	return command.CombinedOutput()
}

// violations returns the lines of an output about violations.
func violations(output []byte) []byte {
	var lines [][]byte
	for line := range bytes.Lines(output) {
		if bytes.Contains(line, []byte(": after ")) || bytes.Contains(line, []byte("panic")) || bytes.Contains(line, []byte("deadlock")) {
			lines = append(lines, line)
		}
	}
	return bytes.Join(lines, nil)
}
