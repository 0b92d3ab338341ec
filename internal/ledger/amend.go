package ledger

import (
	"math"
	"slices"
)

// Amend prepares a change of a settled claim from r.Replaces to r.Charges. The ledger must have r.Replaces as usage;
// r.Charges may be empty. Amend decides the difference like a reservation, whole or not at all. The amendment holds the
// difference until [Ledger.SettleAmendment] makes the change or [Ledger.Cancel] drops it. Shrinking amounts stay held
// until then.
//
// If there already is an amendment with this key, Amend extends it. The amendment then holds enough for r.Charges too,
// and keeps its earlier charges and its Replaces. It takes the claim payload of r and gets a new sequence. Amend
// extends a reservation in the same way if r.Replaces is empty.
func (l *Ledger) Amend(r Reservation) Decision { return l.amend(r, l.tryReserve) }

// AmendOverdraft is Amend regardless of the limits. It never decides Exceeded.
func (l *Ledger) AmendOverdraft(r Reservation) Decision { return l.amend(r, l.tryOverdraft) }

func (l *Ledger) amend(r Reservation, decide func(*transaction, []Charge) Decision) Decision {
	var tx transaction
	before, d := l.tryAmend(&tx, &r, decide)
	if d.Code != Admitted {
		tx.rollback()
		l.pruneAccounts(tx.charges)
		return d
	}
	if d.Existing {
		l.removeReservation(&before)
		if !before.amends() {
			l.withdraw(before.Sequence) // somebody may be making its claim
		}
	}
	entered := l.commit(&tx, r, KindChanged)
	entered.Existing = d.Existing
	return entered
}

// tryAmend decides an amendment and completes r. It also returns the existing amendment with the key, if there is one.
// The caller must commit the transaction or roll it back.
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

// checkRoomForAmendment is checkRoom for an amendment, perhaps instead of an existing one.
func (l *Ledger) checkRoomForAmendment(tx *transaction, size int, before Reservation, known bool) Code {
	if known {
		size -= before.Size()
	}
	if len(tx.charges) == 0 {
		return l.checkRoom(tx, size, reductionBytesMax)
	}
	return l.checkRoom(tx, size, BytesMax)
}

// precheckAmendment makes the checks before the decision on amounts. It returns Admitted if the amounts decide.
func (l *Ledger) precheckAmendment(r *Reservation, before Reservation, known bool) Code {
	switch {
	case !validKey(r.Key), known && before.amends() != r.amends(), r.Awaits != nil, before.Awaits != nil:
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

// SettleAmendment ends an amendment: it removes Replaces and Charges and adds after as usage of the claim, regardless
// of the limits. after may be empty. Sequence 0 stands for any.
//
// SettleAmendment reports whether it did so. If not, the ledger is unchanged: there is no such amendment, after is
// invalid or does not fit an Amount, or the ledger no longer has Replaces.
func (l *Ledger) SettleAmendment(key string, sequence int64, after []Charge) bool {
	r, ok := l.find(key, sequence)
	if !ok || !r.amends() || validateOptionalCharges(after) != 0 || !l.holds(r.Replaces) {
		return false
	}

	trial := l.Begin()
	resume := l.pauseJournal()
	l.Cancel(key, 0)
	l.removeSettled(r.Replaces)
	if len(after) > 0 && !l.addSettled(key, after) {
		trial.Discard()
		return false
	}
	l.pruneAccounts(r.Replaces)
	resume()
	trial.Keep()

	l.record(recordOf(KindChanged, &r), differences(after, slices.Concat(r.Replaces, r.Charges)))
	return true
}

// addSettled adds charges as usage of a settled claim, if they fit an Amount. It uses up no sequence.
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

// removeSettled gives back the charges of a settled claim. The ledger must have them. The caller prunes.
func (l *Ledger) removeSettled(charges []Charge) {
	for i := range charges {
		c := &charges[i]
		l.accounts[c.ResourceType].release(c.Dimensions, c.Amount)
	}
}

// excess returns the charges minus the settled and reserved ones, without zeros.
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

// sum adds up two lists of charges. The sums fit: the caller has decided on them, or decides next.
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

// amountOf returns the amount of the charge with the same type and dimensions, or 0.
func amountOf(charges []Charge, like Charge) Amount {
	for _, c := range charges {
		if c.ResourceType == like.ResourceType && c.Dimensions == like.Dimensions {
			return c.Amount
		}
	}
	return 0
}
