package allocation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	quota "k8s.io/apiserver/pkg/quota/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The state has two stored objects. The status of the allocation has the amounts of the member namespaces. It is long,
// for people, and seldom changes. The ledger has the changes possibly missing in the status. It is short, and each
// change writes it. To drop changes, the store writes the status before the ledger: then each change is in one of them
// or in both, and both is the same as one.

// IsStatusChanged reports whether the status lacks an observation or a condition. Write the status before the ledger.
func (s *State) IsStatusChanged() bool { return s.isStatusChanged }

// IsLedgerChanged reports whether the stored ledger has other pending changes.
func (s *State) IsLedgerChanged() bool { return s.isLedgerChanged }

// IsRoomChanged reports whether processes with the former stored state may decide differently: some namespace takes
// more or less, or the spec has changed. Writing the ledger stops them.
func (s *State) IsRoomChanged() bool { return s.isRoomChanged }

// IsStatusCurrent reports whether the status has the cap and the total of this state.
func (s *State) IsStatusCurrent() bool {
	shown := s.object.Status.Allocated
	return !s.isStatusChanged && quota.Equals(s.total, shown.Used) && quota.Equals(s.object.Spec.Allocation.Hard, shown.Hard)
}

// StatusStored records the write of [State.ObjectToStore], with the answer of the API server.
func (s *State) StatusStored(object *quotav1alpha1.ResourceQuotaAllocation) {
	s.object, s.isStatusChanged = object, false
}

// LedgerStored records the write of [State.LedgerToStore].
func (s *State) LedgerStored() { s.isLedgerChanged, s.isRoomChanged = false, false }

// LedgerToStore returns the ledger to store beside the status, for the version of the allocation in this state. It
// shares data with the state.
func (s *State) LedgerToStore() *quotav1alpha1.AllocationLedger {
	return &quotav1alpha1.AllocationLedger{
		TypeMeta: metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "AllocationLedger"},
		ObjectMeta: metav1.ObjectMeta{Name: string(s.object.UID), OwnerReferences: []metav1.OwnerReference{{
			APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceQuotaAllocation", Name: s.object.Name, UID: s.object.UID,
		}}},
		Spec: quotav1alpha1.AllocationLedgerSpec{
			AllocationName: s.object.Name, AllocationVersion: s.object.ResourceVersion, Pending: s.pending,
		},
	}
}
