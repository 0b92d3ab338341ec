package kit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

// Churn keeps one of keptOf maps.
const keptOf = 8

// Churn creates maps within the limit, and deletes most of them.
type Churn struct {
	// Created counts the maps with an answered create, and Kept those of them without a delete.
	Created, Kept atomic.Int64

	group sync.WaitGroup
}

// Start creates maps with one client until ctx ends. Clients have different numbers. Use a number once.
func (c *Churn) Start(ctx context.Context, t testing.TB, api client.Client, number int) {
	c.group.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			m := platform.Map(number*1_000_000 + i)
			if err := api.Create(t.Context(), m); err != nil {
				if platform.IsExceeded(err) {
					t.Errorf("create: %v", err)
				}
				continue // nobody could be asked
			}
			c.Created.Add(1)
			if i%keptOf == 0 {
				c.Kept.Add(1)
				continue
			}
			_ = api.Delete(t.Context(), m) // one that stays has a charge
		}
	})
}

// Advance returns an error unless there are some more created maps than before, and a slice of quota.
func (c *Churn) Advance(ctx context.Context, api client.Reader, before, more int64) error {
	sliced, err := Sliced(ctx, api)
	if err != nil {
		return err
	}
	if done := c.Created.Load() - before; sliced == 0 || done < more {
		return fmt.Errorf("%d objects were created, want %d, and %d are reserved ahead of demand", done, more, sliced)
	}
	return nil
}

// Wait waits until all clients have ended.
func (c *Churn) Wait() { c.group.Wait() }

// Check returns an error unless at least the kept maps exist, each with a charge, and no quota is in slices.
func (c *Churn) Check(ctx context.Context, api client.Reader, limit int64) error {
	sliced, err := Sliced(ctx, api)
	if err != nil {
		return err
	}
	if sliced > 0 {
		return fmt.Errorf("%d are reserved ahead of demand", sliced)
	}
	objects, err := CheckMaps(ctx, api, limit)
	if err == nil && objects < c.Kept.Load() { // of creates without an answer some exist too
		err = fmt.Errorf("%d objects exist, want %d", objects, c.Kept.Load())
	}
	return err
}

// Sliced returns the number of maps in all slices.
func Sliced(ctx context.Context, api client.Reader) (sum int64, err error) {
	var ledgers quotav1alpha1.ConsumerLedgerList
	if err := api.List(ctx, &ledgers); err != nil {
		return 0, err
	}
	for i := range ledgers.Items {
		for _, s := range ledgers.Items[i].Spec.Slices {
			sum += s.Amounts[platform.MapsType]
		}
	}
	return sum, nil
}
