// Command bench measures Bursar as its clients see it, on a standalone server or on an API server with replicas of the
// operator. It measures creates without a policy beside creates with one, denials, directly created claims, the return
// of capacity, and all of it again with more and more claims. One run on one server measures everything, to make the
// numbers comparable.
//
// It can also offer creates at a fixed rate, independent of the answers, to show the latency added by protection. And
// it can measure a start, memory and the size of etcd's database with many consumers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/quiet"
)

const usage = `bench measures Bursar as its clients see it, in one of these ways:

  bench                          creates in closed loops, and all else that -measure names
  bench -measure sidebyside      creates without quota, under a core ResourceQuota and under Bursar
  bench -rate 100 -clients 50    creates at a fixed rate, whatever the answers: what protection adds
  bench -consumers 10000 -standing 150000
                                 a start, memory, creates and etcd's size with many consumers

Each on a standalone server, or on replicas of the operator: -operators 3.

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	quiet.Libraries() // policies come before discovery finds their kinds
	var err error
	if len(os.Args) == 3 && os.Args[1] == apiServerMode {
		err = runAPIServer(ctx, os.Args[2])
	} else {
		err = runBench(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runBench(ctx context.Context) error {
	var b bench
	flags := flag.NewFlagSet("bench", flag.ExitOnError) // without those of libraries
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&b.binary, "bursar", "", "the `binary` to measure (default bin/bursar, or bin/bursar-operator with -operators)")
	operators := flags.Int("operators", 0, "measure so many replicas of the operator on an API server of their own; 0 is a standalone server")
	journal := flags.String("journal", "", "the --journal of a standalone server, such as none (default: its own default, files)")
	admission := flags.String("admission", "escrow", "how a standalone server admits: escrow or durable")
	clients := flags.String("clients", "1,8,32", "how many clients create at a time, one round for each")
	existing := flags.String("claims", "0,1000,10000", "how many claims exist, one round for each; add 100000 with time to spare")
	flags.IntVar(&b.adopted, "adopt", 5000, "how many existing objects are adopted, in each of two rounds")
	flags.IntVar(&b.memory, "memory", 100_000, "with how many claims memory is measured")
	flags.DurationVar(&b.duration, "duration", 5*time.Second, "how long each measurement lasts")
	flags.Float64Var(&b.rate, "rate", 0, "offer so many creates of each sort a second, instead of closed loops; with -consumers 20 if it is not given")
	var size standingSize
	flags.IntVar(&size.consumers, "consumers", 0, "measure capacity, with so many consumers, instead of closed loops")
	flags.IntVar(&size.claims, "standing", 150_000, "how many claims the consumers have in total")
	flags.IntVar(&size.crowd, "crowd", 10_000, "how many claims one more consumer has alone; they are created one by one")
	withoutClaims := flags.Bool("without-claims", false, "count objects without claims: spec.claims None")
	measured := flags.String("measure", allMeasurements(), "what is measured in closed loops, of these")
	_ = flags.Parse(os.Args[1:]) // it exits on an error

	if b.claims = quotav1alpha1.ClaimsModeObjects; *withoutClaims {
		b.claims = quotav1alpha1.ClaimsModeNone
	}
	var err error
	if b.clients, err = numbers(*clients); err != nil {
		return err
	}
	if b.existing, err = numbers(*existing); err != nil {
		return err
	}
	if b.measured, err = chosenFrom(*measured); err != nil {
		return err
	}
	if err := size.check(); err != nil {
		return err
	}
	if *operators > 0 && (*admission != "escrow" || *journal != "") {
		return errors.New("-admission and -journal are for a standalone server: the operator's configuration has them")
	}
	if b.system, err = startSystem(ctx, b.binary, *admission, *journal, *operators); err != nil {
		return err
	}
	defer b.system.stop()
	if err := b.openClient(); err != nil {
		return err
	}
	if err := b.setUp(ctx); err != nil {
		return err
	}
	switch {
	case size.consumers > 0:
		return b.measureCapacity(ctx, size)
	case b.rate > 0:
		return b.measureRate(ctx)
	}
	return b.measureClosedLoops(ctx)
}

func numbers(list string) ([]int, error) {
	var all []int
	for field := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not a list of numbers", list)
		}
		all = append(all, n)
	}
	return all, nil
}
