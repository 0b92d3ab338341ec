package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
)

// writes has the numbers of writes of ledgers, and of those in vain because of an earlier write by another replica, of
// all processes together.
type writes struct {
	committed, conflicts float64
}

func (b *bench) ledgerWrites(ctx context.Context) (writes, error) {
	var w writes
	for _, p := range b.system.processes() {
		page, err := p.metrics(ctx)
		if err != nil {
			return writes{}, fmt.Errorf("ask %s how often it wrote ledgers: %w", p.name, err)
		}
		w.committed += valueIn(page, `bursar_ledger_commits_total{outcome="committed"}`)
		w.conflicts += valueIn(page, `bursar_ledger_commits_total{outcome="conflict"}`)
	}
	return w, nil
}

// since returns the cost of so many grants since an earlier time. It counts all commits, also those that settled the
// charges of the grants.
func (w writes) since(before writes, grants int) string {
	commits, conflicts := w.committed-before.committed, w.conflicts-before.conflicts
	if grants == 0 || commits == 0 {
		return "no grants"
	}
	return fmt.Sprintf("%.4f conflicts per grant, %.1f grants per commit", conflicts/float64(grants), float64(grants)/commits)
}

// valueIn returns the value of a metric, named with its labels, in the text form of Prometheus, or 0.
func valueIn(page []byte, metric string) float64 {
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(metric) + ` (\S+)$`).FindSubmatch(page)
	if match == nil {
		return 0
	}
	value, _ := strconv.ParseFloat(string(match[1]), 64)
	return value
}
