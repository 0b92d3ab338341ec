package simulation

import (
	"fmt"
	"os"
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

// SEED is one seed, SEEDS how many seeds from 0 on are run. Natively a seed repeats only roughly: see package simulate.
func TestSeeds(t *testing.T) {
	first, count := 0, 20
	if seed, err := strconv.Atoi(os.Getenv("SEED")); err == nil {
		first, count = seed, 1
	} else if seeds, err := strconv.Atoi(os.Getenv("SEEDS")); err == nil {
		count = seeds
	}
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, uint64(seed))
			rand.Seed(int64(seed))
			synctest.Test(t, func(t *testing.T) {
				w := New(t, uint64(seed))
				w.Run()
				t.Log(w.Counts())
			})
		})
	}
}
