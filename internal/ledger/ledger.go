package ledger

import "slices"

// Ledger is the ledger of one consumer in memory. Use [New] or [Restore] to make one.
type Ledger struct {
	sequence     int64 // of the latest reservation
	accounts     map[string]*account
	grants       map[string]Grant       // by UID
	observations map[string]Observation // by kind
	reservations map[string]Reservation
	slices       map[string]Slice // by holder
	bytes        bytes
	now          int64    // of the batch, in milliseconds since 1970
	journal      *journal // nil if the ledger keeps no records
	types        Types    // nil if the ledger enforces all
	removedBy    map[string]string
	log          undoLog
}

// Types tells resource types apart.
type Types interface {
	// IsCountedOnly reports whether the ledger only counts the charges of a resource type: they never exceed a limit.
	// The answer for a type never changes.
	IsCountedOnly(resourceType string) bool
}

// SetTypes sets the resource types to count only. Without it, the ledger enforces all.
func (l *Ledger) SetTypes(types Types) { l.types = types }

// Types returns the argument of [Ledger.SetTypes], or nil.
func (l *Ledger) Types() Types { return l.types }

func (l *Ledger) isCountedOnly(resourceType string) bool {
	return l.types != nil && l.types.IsCountedOnly(resourceType)
}

// New returns an empty ledger. Without grants it admits nothing.
func New() *Ledger {
	return &Ledger{
		accounts:     map[string]*account{},
		grants:       map[string]Grant{},
		observations: map[string]Observation{},
		reservations: map[string]Reservation{},
		slices:       map[string]Slice{},
	}
}

// Reserve decides a reservation whole or not at all, and adds an admitted one. It ignores the sequence in r and returns
// the new one. If the ledger already has a reservation with the key, nothing changes, whatever the rest of r, and the
// decision has the existing sequence. A key is free again once the reservation has ended.
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
		l.pruneAccounts(r.Charges)
		return d
	}
	return l.commit(&tx, r)
}

// Check returns the decision of Reserve for charges under a new key, without changing anything. Its sequence is 0.
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
	l.pruneAccounts(charges)
	return d
}

// ReserveOverdraft adds a reservation regardless of the limits, such as for an existing object. It never decides
// Exceeded. Otherwise it is like Reserve.
func (l *Ledger) ReserveOverdraft(r Reservation) Decision { return l.reserveOverdraft(r, BytesMax) }

// reserveOverdraft is ReserveOverdraft with another budget of bytes.
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

// Cancel drops a reservation and gives its charges back. Sequence 0 stands for any. It reports whether there was such a
// reservation.
func (l *Ledger) Cancel(key string, sequence int64) bool {
	r, ok := l.find(key, sequence)
	if !ok {
		return false
	}
	for i := range r.Charges {
		c := &r.Charges[i]
		l.accounts[c.ResourceType].cancel(c.Dimensions, c.Amount)
	}
	l.removeReservation(&r)
	l.pruneAccounts(r.Charges)
	l.recordCanceled(&r)
	return true
}

// precheck makes the checks without an account. Code 0 means success.
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

// tryReserve decides valid charges. The caller must commit the transaction or roll it back.
func (l *Ledger) tryReserve(tx *transaction, charges []Charge) Decision {
	if l.types != nil {
		for i := range charges {
			if l.isCountedOnly(charges[i].ResourceType) {
				l.accountOf(charges[i].ResourceType)
			}
		}
	}
	if !tx.admit(l, charges) {
		return Decision{Code: Exceeded, Shortages: tx.shortages()}
	}
	if tx.hasRest && !tx.overdraw() {
		return Decision{Code: Overflow}
	}
	return Decision{Code: tx.check()}
}

// tryOverdraft decides valid charges regardless of the limits. The caller must commit the transaction or roll it back.
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

// commit adds a decided reservation. The transaction has taken its charges.
func (l *Ledger) commit(tx *transaction, r Reservation) Decision {
	tx.commit()
	l.sequence++
	r.Sequence = l.sequence
	l.recordAdmitted(&r)
	r.Subject, r.Actor = "", "" // only the record has them
	r.Charges = slices.Clone(r.Charges)
	l.addReservation(r)
	return Decision{Code: Admitted, Sequence: r.Sequence}
}

func (l *Ledger) addReservation(r Reservation) {
	put(&l.log, l.reservations, r.Key, r)
	l.bytes.reservations += r.Size()
}

func (l *Ledger) removeReservation(r *Reservation) {
	drop(&l.log, l.reservations, r.Key)
	l.bytes.reservations -= r.Size()
}

// find returns a reservation. Sequence 0 stands for any.
func (l *Ledger) find(key string, sequence int64) (Reservation, bool) {
	r, ok := l.reservations[key]
	return r, ok && (sequence == 0 || sequence == r.Sequence)
}

// accountOf returns the account of a resource type, and creates it if necessary.
func (l *Ledger) accountOf(resourceType string) *account {
	a := l.accounts[resourceType]
	if a == nil {
		a = newAccount(resourceType, l)
		put(&l.log, l.accounts, resourceType, a)
	}
	return a
}

// pruneAccounts drops the empty accounts among those of some charges.
func (l *Ledger) pruneAccounts(charges []Charge) {
	for i := range charges {
		l.pruneAccount(charges[i].ResourceType)
	}
}

func (l *Ledger) pruneAccount(resourceType string) {
	if a := l.accounts[resourceType]; a != nil && a.allowanceCount == 0 && len(a.balances) == 0 {
		drop(&l.log, l.accounts, resourceType)
	}
}
