package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// memoryRest is the pause of a system before the measurement of its memory at rest.
	memoryRest = time.Minute
	// memoryClients create claims until there are as many as wanted.
	memoryClients = 32
)

// measureMemory measures the resident memory with many claims: during the creation of the last of them, at rest, and
// after a restart.
func (b *bench) measureMemory(ctx context.Context) error {
	fmt.Printf("\nmemory with %d claims\n\n| | | resident | at most so far | Go heap |\n| --- | --- | --- | --- | --- |\n", b.memory)
	count, err := b.claimCount(ctx)
	if err != nil {
		return err
	}
	connections, err := b.connect(memoryClients)
	if err != nil {
		return err
	}
	if wanted := b.memory - count; wanted > 0 {
		if r := b.load(ctx, memoryClients, wanted, b.spread(connections)); r.failures > 0 {
			return fmt.Errorf("create %d claims: %w", wanted, r.failure)
		}
	}
	if err := b.printMemory(ctx, "under load"); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	if err := waitFor(ctx, memoryRest); err != nil {
		return err
	}
	if err := b.printMemory(ctx, fmt.Sprintf("at rest for %s", memoryRest)); err != nil {
		return err
	}
	if _, err := b.system.restart(ctx); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if err := b.openClient(); err != nil {
		return err
	}
	if err := waitFor(ctx, memoryRest); err != nil {
		return err
	}
	return b.printMemory(ctx, fmt.Sprintf("%s after a restart", memoryRest))
}
