package ledger

import "slices"

// Ledger is the books of one consumer in memory. It must be made by [New] or [Restore].
type Ledger struct {
	sequence     int64 // of the latest reservation
	accounts     map[string]*account
	grants       map[string]Grant // by UID
	reservations map[string]Reservation
	released     map[string]struct{} // claim UIDs
	bytes        bytes
}

// New returns empty books: nothing is granted, so nothing would be admitted.
func New() *Ledger {
	return &Ledger{
		accounts:     map[string]*account{},
		grants:       map[string]Grant{},
		reservations: map[string]Reservation{},
		released:     map[string]struct{}{},
	}
}

// Reserve decides a reservation whole or not at all, and enters it if it is admitted. The
// sequence in r is ignored; the decision has the one it was given. If the key is in the books
// already, nothing changes, whatever else r says, and the decision has the existing sequence.
// A key leaves the books when its reservation is canceled, settled or released.
func (l *Ledger) Reserve(r Reservation) Decision {
	if d := l.precheck(&r); d.Code != 0 {
		return d
	}
	var tx transaction
	d := l.tryReserve(&tx, r.Charges)
	if d.Code == Admitted {
		d.Code = l.checkRoom(&tx, r.Size(), BytesMax)
	}
	if d.Code != Admitted {
		tx.rollback()
		return d
	}
	return l.commit(&tx, r)
}

// Check returns the decision that Reserve would come to for charges under a new key, and
// changes nothing. Its sequence is 0.
func (l *Ledger) Check(charges []Charge) Decision {
	if code := validateCharges(charges); code != Admitted {
		return Decision{Code: code}
	}
	var tx transaction
	d := l.tryReserve(&tx, charges)
	if d.Code == Admitted {
		d.Code = l.checkRoom(&tx, (&Reservation{Charges: charges}).Size(), BytesMax)
	}
	tx.rollback()
	return d
}

// ReserveOverdraft enters a reservation regardless of the limits, as for an object that exists already.
// Otherwise it is like Reserve; it never decides Exceeded.
func (l *Ledger) ReserveOverdraft(r Reservation) Decision { return l.reserveOverdraft(r, BytesMax) }

// adopt is Adopt with another budget.
func (l *Ledger) reserveOverdraft(r Reservation, bytesMax int) Decision {
	if d := l.precheck(&r); d.Code != 0 {
		return d
	}
	var tx transaction
	d := l.tryOverdraft(&tx, r.Charges)
	if d.Code == Admitted {
		d.Code = l.checkRoom(&tx, r.Size(), bytesMax)
	}
	if d.Code != Admitted {
		tx.rollback()
		l.pruneAccounts(r.Charges)
		return d
	}
	return l.commit(&tx, r)
}

// Cancel drops a reservation and gives its charges back. Sequence 0 stands for any. It reports
// whether there was such a reservation.
func (l *Ledger) Cancel(key string, sequence int64) bool {
	r, ok := l.find(key, sequence)
	if !ok {
		return false
	}
	for i := range r.Charges {
		c := &r.Charges[i]
		l.accounts[c.ResourceType].cancel(c.Dimensions, c.Amount)
	}
	l.remove(&r)
	l.pruneAccounts(r.Charges)
	return true
}

// Renew gives a reservation a new sequence, so that whoever knows it by the former one can no longer end it. It reports
// whether there is such a reservation.
func (l *Ledger) Renew(key string) (sequence int64, ok bool) {
	r, ok := l.reservations[key]
	if !ok {
		return 0, false
	}
	l.sequence++
	r.Sequence = l.sequence
	l.reservations[key] = r
	return r.Sequence, true
}

// Rename gives a reservation another key, claim payload and time, and a new sequence. What it holds stays. In the same step it
// records id, as [Ledger.Release] does the UID of a claim: a claim made from the former reservation is charged nowhere. It
// returns the reservation as it was, for [Ledger.UndoRename], and reports false if there is none, it is an amendment, the new
// key is taken or invalid, or the ledger is full.
func (l *Ledger) Rename(from string, to Reservation, id string) (before Reservation, ok bool) {
	before, ok = l.reservations[from]
	if _, taken := l.reservations[to.Key]; !ok || taken || before.amends() || !validKey(to.Key) || len(to.Claim) > ClaimBytesMax {
		return Reservation{}, false
	}
	after := before
	after.Key, after.Claim, after.ReservedAt = to.Key, to.Claim, to.ReservedAt
	if more := after.Size() - before.Size() + recordSize(id); more > 0 && l.Bytes()+more > BytesMax {
		return Reservation{}, false
	}
	l.remove(&before)
	l.recordReleased(id)
	l.sequence++
	after.Sequence = l.sequence
	l.reservations[after.Key] = after
	l.bytes.reservations += after.Size()
	return before, true
}

// UndoRename undoes [Ledger.Rename] to a key, which recorded id, if the reservation is there still.
func (l *Ledger) UndoRename(before Reservation, key, id string) {
	renamed, ok := l.reservations[key]
	if !ok {
		return
	}
	l.remove(&renamed)
	l.Forget(id)
	l.reservations[before.Key] = before
	l.bytes.reservations += before.Size()
}

// Settle turns a reservation into usage and counts its claim once in every row it charges.
// Sequence 0 stands for any. It reports whether there was such a reservation; amendments end by
// [Ledger.SettleAmendment].
func (l *Ledger) Settle(key string, sequence int64) bool {
	r, ok := l.find(key, sequence)
	if !ok || r.amends() {
		return false
	}
	for i := range r.Charges {
		c := &r.Charges[i]
		l.accounts[c.ResourceType].settle(c.Dimensions, c.Amount)
	}
	l.remove(&r)
	return true
}

// screen answers what needs no look at the pages, and leaves the code 0 if that is not enough.
func (l *Ledger) precheck(r *Reservation) Decision {
	if !validKey(r.Key) {
		return Decision{Code: KeyInvalid}
	}
	if existing, ok := l.reservations[r.Key]; ok {
		return Decision{Code: Admitted, Sequence: existing.Sequence, Existing: true}
	}
	if code := r.validate(); code != Admitted {
		return Decision{Code: code}
	}
	return Decision{}
}

// try decides valid charges. The trial must be entered or reverted afterwards.
func (l *Ledger) tryReserve(tx *transaction, charges []Charge) Decision {
	if !tx.admit(l, charges) {
		return Decision{Code: Exceeded, Shortages: tx.shortages()}
	}
	return Decision{Code: tx.check()}
}

// tryOverdraft decides valid charges regardless of the limits. The trial must be entered or
// reverted afterwards.
func (l *Ledger) tryOverdraft(tx *transaction, charges []Charge) Decision {
	for i := range charges {
		l.accountOf(charges[i].ResourceType)
	}
	tx.admit(l, charges)
	if !tx.overdraw() {
		return Decision{Code: Overflow}
	}
	return Decision{Code: tx.check()}
}

func (l *Ledger) commit(tx *transaction, r Reservation) Decision {
	tx.commit()
	l.sequence++
	r.Sequence = l.sequence
	r.Charges, r.Replaces = slices.Clone(r.Charges), slices.Clone(r.Replaces)
	l.reservations[r.Key] = r
	l.bytes.reservations += r.Size()
	return Decision{Code: Admitted, Sequence: r.Sequence}
}

func (l *Ledger) remove(r *Reservation) {
	delete(l.reservations, r.Key)
	l.bytes.reservations -= r.Size()
}

// held finds a reservation. Sequence 0 stands for any.
func (l *Ledger) find(key string, sequence int64) (Reservation, bool) {
	r, ok := l.reservations[key]
	return r, ok && (sequence == 0 || sequence == r.Sequence)
}

// accountOf returns the page of a resource type, which may be new.
func (l *Ledger) accountOf(resourceType string) *account {
	a := l.accounts[resourceType]
	if a == nil {
		a = newAccount(resourceType, &l.bytes.balances)
		l.accounts[resourceType] = a
	}
	return a
}

// prune drops the pages of charges that nothing stands on any more.
func (l *Ledger) pruneAccounts(charges []Charge) {
	for i := range charges {
		l.pruneAccount(charges[i].ResourceType)
	}
}

func (l *Ledger) pruneAccount(resourceType string) {
	if a := l.accounts[resourceType]; a != nil && a.allowanceCount == 0 && len(a.balances) == 0 {
		delete(l.accounts, resourceType)
	}
}
