package simulation

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/bursar/bursar/test/quiet"
)

func TestMain(m *testing.M) {
	quiet.Libraries()
	os.Exit(m.Run())
}

// SEED is one seed. Without it, the test runs the kept seeds and the first ones. The order of goroutines is another one
// each time, and the race detector sees it: see command simulate for seeds that repeat themselves.
func TestSeeds(t *testing.T) {
	seeds := slices.Clone(Kept)
	for seed := range uint64(20) {
		seeds = append(seeds, seed)
	}
	if seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			rand.Seed(int64(seed))
			synctest.Test(t, func(t *testing.T) {
				w := New(t, seed)
				w.Run()
				t.Log(w.Counts())
			})
		})
	}
}
