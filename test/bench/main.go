// Command bench measures a standalone Bursar as its clients see it: creates that no policy
// protects beside creates that one does, refusals, directly created claims, capacity that
// comes back, and all of it again with more and more claims in the books. Everything is
// measured in one run on one server, so that the numbers can be compared.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var b bench
	flag.StringVar(&b.binary, "bursar", "bin/bursar", "the binary to measure")
	clients := flag.String("clients", "1,8,32", "how many clients create at a time, one round for each")
	existing := flag.String("claims", "0,1000,10000", "how many claims exist, one round for each; add 100000 with time to spare")
	flag.IntVar(&b.adopted, "adopt", 5000, "how many existing objects are adopted, in each of two rounds")
	flag.DurationVar(&b.duration, "duration", 5*time.Second, "how long each measurement lasts")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // policies come before their kinds are found

	var err error
	if b.clients, err = numbers(*clients); err == nil {
		b.existing, err = numbers(*existing)
	}
	if err == nil {
		b.server, err = startServer(ctx, b.binary)
	}
	if err == nil {
		defer b.server.stop()
		err = b.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		if b.server != nil {
			b.server.stop()
		}
		os.Exit(1)
	}
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
