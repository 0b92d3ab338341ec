package ledger

import (
	"math"
	"slices"
)

// Amend prepares a change of what a settled claim holds: from r.Replaces, which the books must
// have, to r.Charges, which may be none. By how much the latter exceed the former is decided like
// a reservation, whole or not at all, and held in addition until [Ledger.SettleAmendment] makes the
// change, or [Ledger.Cancel] drops it. What becomes less stays held until then.
//
// If the key is in the books already, that amendment goes on with what it replaces: it comes to
// hold enough for r.Charges too, keeps what it held, takes the claim payload of r, and gets a new
// sequence. Where nothing is replaced, Amend does the same for a reservation.
func (l *Ledger) Amend(r Reservation) Decision { return l.amend(r, l.tryReserve) }

// AmendOverdraft is Amend regardless of the limits. It never decides Exceeded.
func (l *Ledger) AmendOverdraft(r Reservation) Decision { return l.amend(r, l.tryOverdraft) }

// CheckAmendment returns the decision that Amend would come to, and changes nothing. Its sequence
// is 0.
func (l *Ledger) CheckAmendment(r Reservation) Decision {
	var tx transaction
	_, d := l.tryAmend(&tx, &r, l.tryReserve)
	tx.rollback()
	return d
}

func (l *Ledger) amend(r Reservation, decide func(*transaction, []Charge) Decision) Decision {
	var tx transaction
	before, d := l.tryAmend(&tx, &r, decide)
	if d.Code != Admitted {
		tx.rollback()
		l.pruneAccounts(tx.charges)
		return d
	}
	if d.Existing {
		l.remove(&before)
	}
	entered := l.commit(&tx, r)
	entered.Existing = d.Existing
	return entered
}

// tryAmend decides an amendment and completes r. It returns the one that is under way, if there
// is one. The trial must be entered or reverted afterwards.
func (l *Ledger) tryAmend(tx *transaction, r *Reservation, decide func(*transaction, []Charge) Decision) (before Reservation, d Decision) {
	before, known := l.reservations[r.Key]
	if code := l.precheckAmendment(r, before, known); code != Admitted {
		return before, Decision{Code: code}
	}
	if known {
		r.Replaces = before.Replaces
	}
	more := excess(r.Charges, r.Replaces, before.Charges)
	r.Charges = sum(before.Charges, more)
	if len(r.Charges) > ChargesMax {
		return before, Decision{Code: ChargesTooMany}
	}
	d = decide(tx, more)
	if d.Code == Admitted {
		d.Code = l.checkRoomForAmendment(tx, r.Size(), before, known)
	}
	d.Existing = known && d.Code == Admitted
	return before, d
}

// checkRoomForAmendment is checkRoom for an amendment in place of one that is known.
func (l *Ledger) checkRoomForAmendment(tx *transaction, size int, before Reservation, known bool) Code {
	if known {
		size -= before.Size()
	}
	if len(tx.charges) == 0 {
		return l.checkRoom(tx, size, reductionBytesMax)
	}
	return l.checkRoom(tx, size, BytesMax)
}

// precheckAmendment answers what needs no decision. Admitted means that one is needed.
func (l *Ledger) precheckAmendment(r *Reservation, before Reservation, known bool) Code {
	switch {
	case !validKey(r.Key), known && before.amends() != r.amends():
		return KeyInvalid
	case len(r.Claim) > ClaimBytesMax:
		return ClaimTooLong
	}
	if code := r.validate(); code != Admitted || known {
		return code
	}
	if !l.holds(r.Replaces) {
		return NotHeld
	}
	return Admitted
}

// SettleAmendment ends an amendment: what it replaces and what it holds are taken out, and after, which
// may be none, becomes what the claim holds settled, regardless of the limits. Sequence 0 stands
// for any. It reports whether it did. It did not, and the books are unchanged, if there is no such
// amendment, if after is invalid or too much to count, or if the books do not have any more what
// is to be replaced.
func (l *Ledger) SettleAmendment(key string, sequence int64, after []Charge) bool {
	r, ok := l.find(key, sequence)
	if !ok || !r.amends() || validateOptionalCharges(after) != 0 || !l.holds(r.Replaces) {
		return false
	}
	l.Cancel(key, 0)
	l.removeSettled(r.Replaces)
	if len(after) == 0 || l.addSettled(key, after) {
		l.pruneAccounts(r.Replaces)
		return true
	}
	// Both were in the books together, so they fit again.
	l.addSettled(key, r.Replaces)
	var tx transaction
	if d := l.tryOverdraft(&tx, r.Charges); d.Code != Admitted {
		panic("what an amendment held does not fit any more: " + d.Code.String())
	}
	sequence, latest := r.Sequence, l.sequence
	l.commit(&tx, r)
	r.Sequence = sequence
	l.reservations[key], l.sequence = r, latest
	return false
}

// addSettled makes charges what a claim holds settled, if they can be counted. It uses no sequence.
func (l *Ledger) addSettled(key string, charges []Charge) bool {
	latest := l.sequence
	d := l.reserveOverdraft(Reservation{Key: key, Charges: charges}, math.MaxInt)
	if d.Code == Admitted {
		l.Settle(key, 0)
	}
	l.sequence = latest
	return d.Code == Admitted
}

// holds reports whether a settled claim may have these charges.
func (l *Ledger) holds(charges []Charge) bool {
	return !slices.ContainsFunc(charges, func(c Charge) bool {
		a := l.accounts[c.ResourceType]
		return a == nil || !a.holds(c.Dimensions, c.Amount)
	})
}

// removeSettled gives the charges of a settled claim back, which the books hold. The caller prunes.
func (l *Ledger) removeSettled(charges []Charge) {
	for i := range charges {
		c := &charges[i]
		l.accounts[c.ResourceType].release(c.Dimensions, c.Amount)
	}
}

// excess is by how much charges exceed what is held, in one list or in another.
func excess(charges, settled, reserved []Charge) []Charge {
	var more []Charge
	for _, c := range charges {
		held, ok := amountOf(settled, c).Add(amountOf(reserved, c))
		if ok && c.Amount > held {
			more = append(more, Charge{ResourceType: c.ResourceType, Dimensions: c.Dimensions, Amount: c.Amount - held})
		}
	}
	return more
}

// sum adds charges to others. The sums are in the books together, or refused.
func sum(charges, more []Charge) []Charge {
	charges = slices.Clone(charges)
	for _, m := range more {
		i := slices.IndexFunc(charges, func(c Charge) bool { return c.ResourceType == m.ResourceType && c.Dimensions == m.Dimensions })
		if i < 0 {
			charges = append(charges, m)
		} else {
			charges[i].Amount += m.Amount
		}
	}
	return charges
}

// amountOf returns the amount of the charge of the same type and dimensions, or 0.
func amountOf(charges []Charge, like Charge) Amount {
	for _, c := range charges {
		if c.ResourceType == like.ResourceType && c.Dimensions == like.Dimensions {
			return c.Amount
		}
	}
	return 0
}
