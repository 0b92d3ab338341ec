package allocationstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger/ledgerapi"
)

// load ensures at least the latest known versions in memory. For confirmed decisions it reads the stored ones.
func (c *committer) load() error {
	c.store.mu.Lock()
	latest := c.latest
	c.store.mu.Unlock()
	if c.state == nil || latest.isDeleted || c.consistency == confirmed && !c.isFresh || isNewer(latest.allocation, c.state.Object().ResourceVersion) {
		return c.loadBoth()
	}
	if object := c.state.Object(); latest.ledgerOf == object.UID && isNewer(latest.ledger, c.ledgerVersion) {
		return c.loadLedger(object)
	}
	return nil
}

func (c *committer) loadBoth() error {
	object, ledger, err := c.read()
	if err != nil {
		return err
	}
	c.isFresh = true
	return c.setState(object, ledger)
}

// loadLedger reads the ledger of an allocation. It reads the allocation too if the given one is too old for the ledger.
func (c *committer) loadLedger(object *quotav1alpha1.ResourceQuotaAllocation) error {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	ledger, err := c.store.storage.ReadLedger(ctx, string(object.UID))
	switch {
	case err != nil:
		return err
	case isTooOld(object, ledger):
		return c.loadBoth()
	}
	return c.setState(object, ledger)
}

// isTooOld reports whether a ledger needs a later version of its allocation.
func isTooOld(object *quotav1alpha1.ResourceQuotaAllocation, ledger *quotav1alpha1.AllocationLedger) bool {
	return ledger != nil && isNewer(ledger.Spec.AllocationVersion, object.ResourceVersion)
}

// isNewer reports whether a resource version is later than another one, or not comparable with it.
func isNewer(version, than string) bool {
	if version == "" || version == than {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil || order > 0
}

// read reads an allocation and its ledger. The ledger is nil if there is none. The pending changes are complete with
// the status from the time of the ledger or later.
func (c *committer) read() (*quotav1alpha1.ResourceQuotaAllocation, *quotav1alpha1.AllocationLedger, error) {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	for range readsMax {
		object, err := c.store.storage.Read(ctx, c.name)
		if apierrors.IsNotFound(err) {
			return nil, nil, ErrGone
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read ResourceQuotaAllocation %s: %w", c.name, err)
		}
		ledger, err := c.store.storage.ReadLedger(ctx, string(object.UID))
		if err != nil {
			return nil, nil, err
		}
		if !isTooOld(object, ledger) {
			return object, ledger, nil
		}
	}
	return nil, nil, fmt.Errorf("read ResourceQuotaAllocation %s: its AllocationLedger belongs to a later version each time", c.name)
}

// setState makes the state from an allocation and its ledger.
func (c *committer) setState(object *quotav1alpha1.ResourceQuotaAllocation, ledger *quotav1alpha1.AllocationLedger) (err error) {
	c.ledgerVersion = versionOf(ledger)
	c.state, err = allocation.New(object, ledger)
	return err
}

func versionOf(ledger *quotav1alpha1.AllocationLedger) string {
	if ledger == nil {
		return ""
	}
	return ledger.ResourceVersion
}

// write stores a state and makes it the one in memory. It writes the status before the ledger.
//
// Before the status has a newly observed spec, write stores the ledger unchanged. After this, writes of processes with
// only the former spec conflict.
func (c *committer) write(state *allocation.State, status, ledger bool) error {
	if status && !c.state.IsObserved() && c.ledgerVersion != "" {
		if err := c.writeLedger(c.state); err != nil {
			return err
		}
	}
	if status {
		if err := c.writeStatus(state); err != nil {
			return err
		}
	}
	if ledger {
		return c.writeLedger(state)
	}
	return nil
}

func (c *committer) writeStatus(state *allocation.State) error {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	stored, err := c.store.storage.WriteStatus(ctx, state.ObjectToStore())
	c.store.metrics.written("status", err)
	switch {
	case apierrors.IsNotFound(err):
		return ErrGone
	case err != nil:
		return fmt.Errorf("write the status of ResourceQuotaAllocation %s: %w", c.name, err)
	}
	state.StatusStored(stored)
	c.state, c.statusWritten = state, time.Now()
	return nil
}

func (c *committer) writeLedger(state *allocation.State) error {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	object := state.LedgerToStore()
	object.ResourceVersion = c.ledgerVersion
	version, err := c.store.storage.WriteLedger(ctx, object)
	c.store.metrics.written("ledger", err)
	if err != nil {
		return fmt.Errorf("write the AllocationLedger of ResourceQuotaAllocation %s: %w", c.name, err)
	}
	state.LedgerStored()
	c.state, c.ledgerVersion, c.compactableSince = state, version, time.Time{}
	return nil
}

func isConflict(err error) bool {
	return apierrors.IsConflict(err) || errors.Is(err, ledgerapi.ErrConflict)
}

// confirm compares the versions of the state with the stored ones. If they differ, it replaces the state and returns
// [groupcommit.ErrAgain].
func (c *committer) confirm() error {
	object, ledger, err := c.read()
	if err != nil {
		return err
	}
	c.isFresh = true
	if known := c.state.Object(); object.UID == known.UID && object.ResourceVersion == known.ResourceVersion && versionOf(ledger) == c.ledgerVersion {
		return nil
	}
	if err := c.setState(object, ledger); err != nil {
		return err
	}
	return groupcommit.ErrAgain
}
