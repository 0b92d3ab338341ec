package ledger

import "slices"

// SettledClaim is a claim with a settled reservation.
type SettledClaim struct {
	UID     string
	Charges []Charge
	// Key and Subject are for the record of its release, see [Record].
	Key, Subject string
}

// Release removes the charges of a settled claim and records its UID as released, in one step. For a recorded UID
// nothing changes. Release reports whether the ledger has the UID now.
//
// If not, the ledger is unchanged. Either the UID is empty or the charges are invalid, see [Code.Invalid]. Or the
// ledger has less usage or fewer claims: ledger and claims have drifted apart, and the ledger cannot know the right
// one.
func (l *Ledger) Release(c SettledClaim) bool {
	switch {
	case c.UID == "":
		return false
	case l.IsReleased(c.UID):
		return true
	case validateCharges(c.Charges) != Admitted, !l.holds(c.Charges):
		return false
	}
	l.removeSettled(c.Charges)
	l.pruneAccounts(c.Charges)
	l.recordReleased(c.UID)
	l.record(Record{Kind: KindReleased, Key: c.Key, Subject: c.Subject}, negated(c.Charges))
	return true
}

// ReleaseReserved is Release for a claim with an unsettled reservation: it drops the reservation and records the UID in
// one step. Sequence 0 stands for any. With an amendment it also removes the charges of Replaces. For a recorded UID
// nothing changes, not even a reservation with the key.
//
// ReleaseReserved reports whether the ledger has the UID now. If not, the ledger is unchanged: the UID is empty, there
// is no such reservation, or the ledger no longer has the charges of Replaces.
func (l *Ledger) ReleaseReserved(claimUID, key string, sequence int64) bool {
	if claimUID == "" {
		return false
	}
	if l.IsReleased(claimUID) {
		return true
	}
	r, ok := l.find(key, sequence)
	if !ok || !l.holds(r.Replaces) {
		return false
	}
	resume := l.pauseJournal()
	l.Cancel(key, sequence)
	l.removeSettled(r.Replaces)
	l.pruneAccounts(r.Replaces)
	l.recordReleased(claimUID)
	resume()
	l.record(recordOf(KindReleased, &r), differences(nil, slices.Concat(r.Charges, r.Replaces)))
	return true
}

// recordReleased adds the record of a released claim.
func (l *Ledger) recordReleased(claimUID string) {
	put(&l.log, l.released, claimUID, struct{}{})
	l.bytes.released += recordSize(claimUID)
}

// Forget drops the record of a released claim and reports whether there was one. Call it only after the deletion of the
// claim, when nobody can release it again.
func (l *Ledger) Forget(claimUID string) bool {
	recorded := l.IsReleased(claimUID)
	if recorded {
		drop(&l.log, l.released, claimUID)
		l.bytes.released -= recordSize(claimUID)
	}
	return recorded
}

// IsReleased reports whether the ledger has a record of the claim's release.
func (l *Ledger) IsReleased(claimUID string) bool {
	_, recorded := l.released[claimUID]
	return recorded
}
