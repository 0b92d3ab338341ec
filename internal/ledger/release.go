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
// one step. Sequence 0 stands for any. For a recorded UID nothing changes, not even a reservation with the key.
//
// ReleaseReserved reports whether the ledger has the UID now. If not, the ledger is unchanged: the UID is empty, or
// there is no such reservation.
func (l *Ledger) ReleaseReserved(claimUID, key string, sequence int64) bool {
	if claimUID == "" {
		return false
	}
	if l.IsReleased(claimUID) {
		return true
	}
	r, ok := l.find(key, sequence)
	if !ok {
		return false
	}
	resume := l.pauseJournal()
	l.Cancel(key, sequence)
	l.recordReleased(claimUID)
	resume()
	l.record(recordOf(KindReleased, &r), negated(r.Charges))
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

// holds reports whether a settled claim may have these charges.
func (l *Ledger) holds(charges []Charge) bool {
	return !slices.ContainsFunc(charges, func(c Charge) bool {
		a := l.accounts[c.ResourceType]
		return a == nil || !a.holds(c.Dimensions, c.Amount)
	})
}

// removeSettled gives back the charges of a settled claim. The ledger must have them. The caller prunes.
func (l *Ledger) removeSettled(charges []Charge) {
	for i := range charges {
		c := &charges[i]
		l.accounts[c.ResourceType].release(c.Dimensions, c.Amount)
	}
}
