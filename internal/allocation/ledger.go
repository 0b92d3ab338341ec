package allocation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	quota "k8s.io/apiserver/pkg/quota/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The books are stored in two objects. What projects take is in the status of the allocation, which is long and for
// people, and seldom written. The raises that may not be in there yet are in its ledger, which is short, and written
// for each of them. To forget raises, the status is written first and then the ledger, so that each is in one of
// them, or in both, which is the same.

// IsStatusChanged tells whether something else was observed of the projects, or of the enforcement, than the status
// says. It has to be written before the ledger.
func (s *State) IsStatusChanged() bool { return s.isStatusChanged }

// IsLedgerChanged tells whether other raises are pending than the ledger says.
func (s *State) IsLedgerChanged() bool { return s.isLedgerChanged }

// IsRoomChanged tells whether others may decide otherwise, who know what was stored before: some project takes more or
// less, or the spec is another. Once the ledger is written they cannot.
func (s *State) IsRoomChanged() bool { return s.isRoomChanged }

// IsStatusCurrent tells whether the status says how much is taken, and of which cap, as the books do.
func (s *State) IsStatusCurrent() bool {
	shown := s.object.Status.Allocated
	return !s.isStatusChanged && quota.Equals(s.total, shown.Used) && quota.Equals(s.object.Spec.Allocation.Hard, shown.Hard)
}

// StatusStored notes that [State.ObjectToStore] was stored, and how the API server has it.
func (s *State) StatusStored(object *quotav1alpha1.ResourceQuotaAllocation) {
	s.object, s.isStatusChanged = object, false
}

// LedgerStored notes that [State.LedgerToStore] was stored.
func (s *State) LedgerStored() { s.isLedgerChanged, s.isRoomChanged = false, false }

// LedgerToStore returns what is to be stored beside the status, at the version of the allocation that the books have. It
// shares with the books.
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
