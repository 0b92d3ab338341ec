// Package storagetest stores allocations and their ledgers in memory. Only tests import it.
package storagetest

import (
	"context"
	"errors"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger/ledgerapi"
)

// Memory stores allocations and their ledgers like an API server. It is safe for concurrent use.
type Memory struct {
	// Fail, if set, may return an error for the nth write of the ledger of an allocation. With isLate the write
	// succeeds without an answer.
	Fail func(allocation string, nth int) (err error, isLate bool)

	mu      sync.Mutex
	version int
	objects map[string]*quotav1alpha1.ResourceQuotaAllocation
	ledgers map[string]*quotav1alpha1.AllocationLedger
	written map[string]Writes
}

// Writes are the attempts to write the status and the ledger of an allocation.
type Writes struct{ Status, Ledger int }

// NewMemory returns storage with allocations.
func NewMemory(objects ...*quotav1alpha1.ResourceQuotaAllocation) *Memory {
	m := &Memory{
		objects: map[string]*quotav1alpha1.ResourceQuotaAllocation{}, ledgers: map[string]*quotav1alpha1.AllocationLedger{},
		written: map[string]Writes{},
	}
	for _, object := range objects {
		m.Put(object)
	}
	return m
}

// Put stores an allocation.
func (m *Memory) Put(object *quotav1alpha1.ResourceQuotaAllocation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	stored := object.DeepCopy()
	stored.ResourceVersion = m.next()
	m.objects[object.Name] = stored
}

// PutPending stores a ledger for an allocation.
func (m *Memory) PutPending(allocation string, pending ...quotav1alpha1.PendingResourceQuota) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.objects[allocation]
	ledger := &quotav1alpha1.AllocationLedger{Spec: quotav1alpha1.AllocationLedgerSpec{
		AllocationName: allocation, AllocationVersion: of.ResourceVersion, Pending: pending,
	}}
	ledger.Name, ledger.ResourceVersion = string(of.UID), m.next()
	m.ledgers[ledger.Name] = ledger
}

// Change changes an allocation.
func (m *Memory) Change(allocation string, f func(*quotav1alpha1.ResourceQuotaAllocation)) {
	changed := m.Allocation(allocation)
	f(changed)
	m.Put(changed)
}

// Remove removes an allocation.
func (m *Memory) Remove(allocation string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, allocation)
}

// Allocation returns the stored allocation, or nil.
func (m *Memory) Allocation(name string) *quotav1alpha1.ResourceQuotaAllocation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects[name].DeepCopy()
}

// Pending returns the pending changes in the ledger of an allocation.
func (m *Memory) Pending(allocation string) []quotav1alpha1.PendingResourceQuota {
	m.mu.Lock()
	defer m.mu.Unlock()
	if of := m.objects[allocation]; of != nil && m.ledgers[string(of.UID)] != nil {
		return m.ledgers[string(of.UID)].Spec.Pending
	}
	return nil
}

// Written returns the number of attempts to write an allocation.
func (m *Memory) Written(allocation string) Writes {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.written[allocation]
}

func (m *Memory) next() string {
	m.version++
	return strconv.Itoa(m.version)
}

// Read returns an allocation.
func (m *Memory) Read(_ context.Context, name string) (*quotav1alpha1.ResourceQuotaAllocation, error) {
	if object := m.Allocation(name); object != nil {
		return object, nil
	}
	return nil, apierrors.NewNotFound(quotav1alpha1.Resource("resourcequotaallocations"), name)
}

// WriteStatus stores the status of an allocation unless somebody changed the allocation since its resource version.
func (m *Memory) WriteStatus(_ context.Context, object *quotav1alpha1.ResourceQuotaAllocation) (*quotav1alpha1.ResourceQuotaAllocation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	writes := m.written[object.Name]
	writes.Status++
	m.written[object.Name] = writes
	before := m.objects[object.Name]
	switch {
	case before == nil:
		return nil, apierrors.NewNotFound(quotav1alpha1.Resource("resourcequotaallocations"), object.Name)
	case before.ResourceVersion != object.ResourceVersion:
		return nil, apierrors.NewConflict(quotav1alpha1.Resource("resourcequotaallocations"), object.Name, errors.New("it was changed"))
	}
	stored := before.DeepCopy()
	stored.Status, stored.ResourceVersion = *object.Status.DeepCopy(), m.next()
	m.objects[object.Name] = stored
	return stored.DeepCopy(), nil
}

// ReadLedger returns a ledger, or nil.
func (m *Memory) ReadLedger(_ context.Context, name string) (*quotav1alpha1.AllocationLedger, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ledgers[name].DeepCopy(), nil
}

// WriteLedger stores a ledger unless somebody changed it since its resource version.
func (m *Memory) WriteLedger(_ context.Context, ledger *quotav1alpha1.AllocationLedger) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	allocation := ledger.Spec.AllocationName
	writes := m.written[allocation]
	writes.Ledger++
	m.written[allocation] = writes
	var late error
	if m.Fail != nil {
		err, isLate := m.Fail(allocation, writes.Ledger)
		if err != nil && !isLate {
			return "", err
		}
		late = err
	}
	var version string
	if before := m.ledgers[ledger.Name]; before != nil {
		version = before.ResourceVersion
	}
	if version != ledger.ResourceVersion {
		return "", ledgerapi.ErrConflict
	}
	stored := ledger.DeepCopy()
	stored.ResourceVersion = m.next()
	m.ledgers[ledger.Name] = stored
	return stored.ResourceVersion, late
}
