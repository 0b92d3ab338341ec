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
func (b *Books) IsStatusChanged() bool { return b.isStatusChanged }

// IsLedgerChanged tells whether other raises are pending than the ledger says.
func (b *Books) IsLedgerChanged() bool { return b.isLedgerChanged }

// IsRoomChanged tells whether others may decide otherwise, who know what was stored before: some project takes more or
// less, or the spec is another. Once the ledger is written they cannot.
func (b *Books) IsRoomChanged() bool { return b.isRoomChanged }

// IsShown tells whether the status says how much is taken, and of which cap, as the books do.
func (b *Books) IsShown() bool {
	shown := b.object.Status.Allocated
	return !b.isStatusChanged && quota.Equals(b.total, shown.Used) && quota.Equals(b.object.Spec.Allocation.Hard, shown.Hard)
}

// StatusStored notes that [Books.Updated] was stored, and how the API server has it.
func (b *Books) StatusStored(object *quotav1alpha1.ResourceQuotaAllocation) {
	b.object, b.isStatusChanged = object, false
}

// LedgerStored notes that [Books.Ledger] was stored.
func (b *Books) LedgerStored() { b.isLedgerChanged, b.isRoomChanged = false, false }

// Ledger returns what is to be stored beside the status, at the version of the allocation that the books have. It
// shares with the books.
func (b *Books) Ledger() *quotav1alpha1.AllocationLedger {
	return &quotav1alpha1.AllocationLedger{
		TypeMeta: metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "AllocationLedger"},
		ObjectMeta: metav1.ObjectMeta{Name: string(b.object.UID), OwnerReferences: []metav1.OwnerReference{{
			APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceQuotaAllocation", Name: b.object.Name, UID: b.object.UID,
		}}},
		Spec: quotav1alpha1.AllocationLedgerSpec{
			AllocationName: b.object.Name, AllocationVersion: b.object.ResourceVersion, Pending: b.pending,
		},
	}
}
