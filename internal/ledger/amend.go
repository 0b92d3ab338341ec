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
func (l *Ledger) Amend(r Reservation) Decision { return l.amend(r, l.try) }

// AmendOverdraft is Amend regardless of the limits. It never decides Exceeded.
func (l *Ledger) AmendOverdraft(r Reservation) Decision { return l.amend(r, l.tryAdopting) }

// CheckAmendment returns the decision that Amend would come to, and changes nothing. Its sequence
// is 0.
func (l *Ledger) CheckAmendment(r Reservation) Decision {
	var t trial
	_, d := l.tryAmending(&t, &r, l.try)
	t.revert()
	return d
}

func (l *Ledger) amend(r Reservation, decide func(*trial, []Charge) Decision) Decision {
	var t trial
	before, d := l.tryAmending(&t, &r, decide)
	if d.Code != Admitted {
		t.revert()
		l.prune(t.charges)
		return d
	}
	if d.Existing {
		l.drop(&before)
	}
	entered := l.enter(&t, r)
	entered.Existing = d.Existing
	return entered
}

// tryAmending decides an amendment and completes r. It returns the one that is under way, if there
// is one. The trial must be entered or reverted afterwards.
func (l *Ledger) tryAmending(t *trial, r *Reservation, decide func(*trial, []Charge) Decision) (before Reservation, d Decision) {
	before, known := l.reservations[r.Key]
	if code := l.screenAmendment(r, before, known); code != Admitted {
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
	d = decide(t, more)
	if d.Code == Admitted {
		d.Code = l.roomForAmendment(t, r.Size(), before, known)
	}
	d.Existing = known && d.Code == Admitted
	return before, d
}

// roomForAmendment is roomFor for an amendment in place of one that is known.
func (l *Ledger) roomForAmendment(t *trial, size int, before Reservation, known bool) Code {
	if known {
		size -= before.Size()
	}
	if len(t.charges) == 0 {
		return l.roomFor(t, size, reductionBytesMax)
	}
	return l.roomFor(t, size, BytesMax)
}

// screenAmendment answers what needs no decision. Admitted means that one is needed.
func (l *Ledger) screenAmendment(r *Reservation, before Reservation, known bool) Code {
	switch {
	case !validKey(r.Key), known && before.amends() != r.amends():
		return KeyInvalid
	case len(r.Claim) > ClaimBytesMax:
		return ClaimTooLong
	}
	if code := r.flaw(); code != Admitted || known {
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
	r, ok := l.held(key, sequence)
	if !ok || !r.amends() || flawUnlessEmpty(after) != 0 || !l.holds(r.Replaces) {
		return false
	}
	l.Cancel(key, 0)
	l.takeOut(r.Replaces)
	if len(after) == 0 || l.putIn(key, after) {
		l.prune(r.Replaces)
		return true
	}
	// Both were in the books together, so they fit again.
	l.putIn(key, r.Replaces)
	var t trial
	if d := l.tryAdopting(&t, r.Charges); d.Code != Admitted {
		panic("what an amendment held does not fit any more: " + d.Code.String())
	}
	sequence, latest := r.Sequence, l.sequence
	l.enter(&t, r)
	r.Sequence = sequence
	l.reservations[key], l.sequence = r, latest
	return false
}

// putIn makes charges what a claim holds settled, if they can be counted. It uses no sequence.
func (l *Ledger) putIn(key string, charges []Charge) bool {
	latest := l.sequence
	d := l.adopt(Reservation{Key: key, Charges: charges}, math.MaxInt)
	if d.Code == Admitted {
		l.Settle(key, 0)
	}
	l.sequence = latest
	return d.Code == Admitted
}

// holds reports whether a settled claim may have these charges.
func (l *Ledger) holds(charges []Charge) bool {
	return !slices.ContainsFunc(charges, func(c Charge) bool {
		p := l.pages[c.ResourceType]
		return p == nil || !p.holds(c.Dimensions, c.Amount)
	})
}

// takeOut gives the charges of a settled claim back, which the books hold. The caller prunes.
func (l *Ledger) takeOut(charges []Charge) {
	for i := range charges {
		c := &charges[i]
		l.pages[c.ResourceType].release(c.Dimensions, c.Amount)
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
