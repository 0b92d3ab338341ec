package ledger

// Release takes the charges of a settled claim out of the books and records its UID in the same
// step; for a UID that is recorded already nothing changes. It reports whether the UID is
// recorded now.
//
// It is not, and the books are unchanged, if the charges are invalid (see [Code.Invalid]), if
// the UID is empty, or if the books say that less is used, or by no claim: they have drifted
// from the claims, and guessing which of the two is right is not for the ledger.
func (l *Ledger) Release(claimUID string, charges []Charge) bool {
	if claimUID == "" {
		return false
	}
	if l.IsReleased(claimUID) {
		return true
	}
	if validateCharges(charges) != Admitted {
		return false
	}
	if !l.holds(charges) {
		return false
	}
	l.removeSettled(charges)
	l.pruneAccounts(charges)
	l.recordReleased(claimUID)
	return true
}

// ReleaseReserved is Release for a claim whose reservation was not settled: it drops the
// reservation, where sequence 0 stands for any, and records the UID in the same step. With an
// amendment goes what it replaces. For a UID that is recorded already nothing changes, not even a
// reservation with that key. It reports whether the UID is recorded now; if not, the UID is empty,
// there was no such reservation, or the books do not have any more what it replaces, and they are
// unchanged.
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
	l.Cancel(key, sequence)
	l.removeSettled(r.Replaces)
	l.pruneAccounts(r.Replaces)
	l.recordReleased(claimUID)
	return true
}

// record notes that a claim was released.
func (l *Ledger) recordReleased(claimUID string) {
	l.released[claimUID] = struct{}{}
	l.bytes.released += recordSize(claimUID)
}

// Forget drops the record of a released claim. Call it only when the claim is gone, so that it
// cannot be released again. It reports whether there was a record.
func (l *Ledger) Forget(claimUID string) bool {
	recorded := l.IsReleased(claimUID)
	if recorded {
		delete(l.released, claimUID)
		l.bytes.released -= recordSize(claimUID)
	}
	return recorded
}

// IsReleased reports whether the claim is recorded as released.
func (l *Ledger) IsReleased(claimUID string) bool {
	_, recorded := l.released[claimUID]
	return recorded
}
