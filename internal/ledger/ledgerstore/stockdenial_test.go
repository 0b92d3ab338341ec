package ledgerstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

func TestStockDenial(t *testing.T) {
	t.Run("catches up and decides again", inBubble(func(t *testing.T) {
		objects := newInventory(widgets, gadgets, "example.com/v1/Empty")
		objects.show(widgets, "1", 2, 8)
		p := counting(t, storagetest.New(), nil, objects, 10)
		p.admit(t, creating(gadgets, "2", 2))
		objects.onCatchUp = func([]string) error {
			objects.kind(widgets).Delete(inventory.Object{UID: "1", Version: 3})
			return nil
		}

		p.admit(t, creating(widgets, "3", 8))

		if want := []string{gadgets, widgets}; len(objects.caughtUp) != 1 || !slices.Equal(objects.caughtUp[0], want) {
			t.Errorf("caught up with %v, want %v", objects.caughtUp, want)
		}
	}))
	t.Run("catches up with the kinds that use the short type", inBubble(func(t *testing.T) {
		objects := newInventory(widgets, gadgets, "example.com/v1/Cog")
		objects.show(widgets, "1", 2, 8)
		objects.kind(gadgets).Set(inventory.Object{
			UID: "2", Version: 2, Demands: []inventory.Demand{{Policy: "p", Consumer: acme, Charges: chargesOf("compute/cpu", 1)}},
		})
		p := counting(t, storagetest.New(), nil, objects, 10)
		cog := creating("example.com/v1/Cog", "3", 1)
		cog.Charges = chargesOf("compute/cpu", 1)
		p.grant(t, ledger.Allowance{ResourceType: gpu, Amount: 10}, ledger.Allowance{ResourceType: "compute/cpu", Amount: 10})
		p.admit(t, cog)

		d, err := storagetest.Reserve(t.Context(), p, acme, creating(widgets, "4", 3))

		if err != nil || d.Code != ledger.Exceeded {
			t.Errorf("got %+v, %v", d, err)
		}
		if want := []string{widgets}; len(objects.caughtUp) != 1 || !slices.Equal(objects.caughtUp[0], want) {
			t.Errorf("caught up with %v, want %v", objects.caughtUp, want)
		}
	}))
	t.Run("is none if the inventory cannot catch up", inBubble(func(t *testing.T) {
		objects, stuck := newInventory(widgets), errors.New("stuck")
		objects.show(widgets, "1", 2, 8)
		objects.onCatchUp = func([]string) error { return stuck }
		p := counting(t, storagetest.New(), nil, objects, 10)

		_, err := storagetest.Reserve(t.Context(), p, acme, creating(widgets, "2", 3))

		if !errors.Is(err, stuck) {
			t.Errorf("got %v", err)
		}
	}))
	// A pending request names version 2 of the policies, and its object demands as much by version 1.
	begin := func(t *testing.T) (*storagetest.Memory, *process, *inventoryOf) {
		memory, objects := storagetest.New(), newInventory(widgets)
		p := counting(t, memory, nil, objects, 10)
		r := creating(widgets, "1", 6)
		r.Awaits.Policies = 2
		p.admit(t, r)
		objects.show(widgets, "1", 2, 6)
		return memory, p, objects
	}
	t.Run("counts no object twice", inBubble(func(t *testing.T) {
		memory, p, objects := begin(t)
		go func() {
			<-time.After(300 * time.Millisecond)
			objects.kind(widgets).Confirm(2, 0)
		}()

		p.admit(t, creating(widgets, "2", 4))

		if objects.refreshed == 0 {
			t.Error("the inventory was not refreshed")
		}
		expectCounted(t, "the first one is observed", memory, counted{Observed: 6, Pending: 4})
	}))
	t.Run("is none while an object counts twice", inBubble(func(t *testing.T) {
		_, p, _ := begin(t)
		began := time.Now()

		_, err := storagetest.Reserve(t.Context(), p, acme, creating(widgets, "2", 4))

		if err == nil || !strings.Contains(err.Error(), "latest policies") {
			t.Errorf("got %v, want an error", err)
		}
		if took := time.Since(began); took < time.Second || took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
	}))
	t.Run("does not wait for kinds that use something else", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets, gadgets)
		objects.show(widgets, "1", 2, 8)
		p := counting(t, memory, nil, objects, 10)
		p.grant(t, ledger.Allowance{ResourceType: gpu, Amount: 10}, ledger.Allowance{ResourceType: "compute/cpu", Amount: 10})
		r := creating(gadgets, "2", 1)
		r.Charges, r.Awaits.Policies = chargesOf("compute/cpu", 1), 2
		p.admit(t, r)
		objects.kind(gadgets).Set(inventory.Object{
			UID: "2", Version: 2, Demands: []inventory.Demand{{Policy: "p", Consumer: acme, Charges: chargesOf("compute/cpu", 1)}},
		})
		began := time.Now()

		d, err := storagetest.Reserve(t.Context(), p, acme, creating(widgets, "3", 3))

		if err != nil || d.Code != ledger.Exceeded || time.Since(began) > 0 {
			t.Errorf("got %+v, %v after %s", d, err, time.Since(began))
		}
	}))
	t.Run("holds after the inventory has caught up", inBubble(func(t *testing.T) {
		objects := newInventory(widgets)
		objects.show(widgets, "1", 2, 8)
		p := counting(t, storagetest.New(), nil, objects, 10)

		d, err := storagetest.Reserve(t.Context(), p, acme, creating(widgets, "2", 3))

		if err != nil || d.Code != ledger.Exceeded || d.Shortages[0].Used != 8 || len(objects.caughtUp) != 1 {
			t.Errorf("got %+v, %v after %v", d, err, objects.caughtUp)
		}
	}))
}

func chargesOf(resourceType string, amount ledger.Amount) []ledger.Charge {
	return []ledger.Charge{{ResourceType: resourceType, Amount: amount}}
}

// grant gives acme the allowances.
func (p *process) grant(t *testing.T, allowances ...ledger.Allowance) {
	t.Helper()
	err := p.SetGrants(t.Context(), acme, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
		return []ledger.Grant{{UID: "g", Name: "g", Generation: 2, Allowances: allowances}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
