package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// quietRate is the most requests a second of a quiet API server: replicas renew their Leases all the time.
	quietRate = 25
	// quietFor is how many seconds in a row it has to be quiet.
	quietFor = 10
)

// measureStart ends a leading process, starts it again, and prints the cost until the API server is quiet again. It
// waits for a quiet API server before.
func (b *bench) measureStart(ctx context.Context, consumers int) error {
	if _, err := b.waitQuiet(ctx); err != nil {
		return err
	}
	before, err := b.requests(ctx)
	if err != nil {
		return err
	}
	used := map[pid]time.Duration{}
	for _, p := range b.system.processes() {
		used[p.pid] = p.cpu()
	}
	begin := time.Now()
	ready, err := b.system.restart(ctx)
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	quiet, err := b.waitQuiet(ctx)
	if err != nil {
		return err
	}
	after, err := b.requests(ctx)
	if err != nil {
		return err
	}
	if _, isSame := used[b.system.processes()[0].pid]; !isSame {
		before = nil // a new server has counted since its start
	}
	var times []string
	for _, p := range b.system.processes() {
		times = append(times, fmt.Sprintf("%s %s", p.name, round(p.cpu()-used[p.pid])))
	}
	fmt.Printf("\nstart with %d consumers: ready after %s, quiet after %s\n  CPU time: %s\n  %s\n",
		consumers, round(ready), round(quiet.Sub(begin)), strings.Join(times, ", "), commonest(before, after))
	return b.openClient()
}

// waitQuiet waits until the API server is quiet, and returns since when it is.
func (b *bench) waitQuiet(ctx context.Context) (time.Time, error) {
	last, err := b.requests(ctx)
	if err != nil {
		return time.Time{}, err
	}
	for since, seconds := time.Now(), 0; ; {
		if err := waitFor(ctx, time.Second); err != nil {
			return time.Time{}, err
		}
		now, err := b.requests(ctx)
		if err != nil {
			return time.Time{}, err
		}
		if seconds++; total(now)-total(last) > quietRate {
			since, seconds = time.Now(), 0
		}
		if last = now; seconds == quietFor {
			return since, nil
		}
	}
}

var requestsOfKind = regexp.MustCompile(`(?m)^apiserver_request_total\{.*,resource="([^"]+)".*verb="([^"]*)".*\} (\S+)$`)

// requests is how many requests the API server has answered, by verb and resource.
func (b *bench) requests(ctx context.Context) (map[string]int, error) {
	page, err := b.system.processes()[0].metrics(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the number of requests: %w", err)
	}
	counts := map[string]int{}
	for _, match := range requestsOfKind.FindAllSubmatch(page, -1) {
		count, err := strconv.ParseFloat(string(match[3]), 64)
		if err != nil {
			return nil, fmt.Errorf("read the number of requests: %w", err)
		}
		counts[string(match[2])+" "+string(match[1])] += int(count)
	}
	return counts, nil
}

func total(counts map[string]int) int {
	var sum int
	for _, count := range counts {
		sum += count
	}
	return sum
}

// commonest describes the requests between two counts: their number, and the most frequent ones.
func commonest(before, after map[string]int) string {
	made := map[string]int{}
	for kind, count := range after {
		made[kind] = count - before[kind]
	}
	kinds := slices.SortedFunc(maps.Keys(made), func(a, b string) int {
		return cmp.Or(cmp.Compare(made[b], made[a]), strings.Compare(a, b))
	})
	const most = 6
	var named []string
	for _, kind := range kinds[:min(most, len(kinds))] {
		named = append(named, fmt.Sprintf("%d %s", made[kind], kind))
	}
	return fmt.Sprintf("%d requests, most of them %s", total(made), strings.Join(named, ", "))
}
