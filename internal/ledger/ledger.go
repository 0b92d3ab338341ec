package ledger

import "slices"

// Ledger is the books of one consumer in memory. It must be made by [New] or [Restore].
type Ledger struct {
	sequence     int64 // of the latest reservation
	pages        map[string]*account
	grants       map[string]Grant // by UID
	reservations map[string]Reservation
	released     map[string]struct{} // claim UIDs
	bytes        bytes
}

// New returns empty books: nothing is granted, so nothing would be admitted.
func New() *Ledger {
	return &Ledger{
		pages:        map[string]*account{},
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
	if d := l.screen(&r); d.Code != 0 {
		return d
	}
	var t trial
	d := l.try(&t, r.Charges)
	if d.Code == Admitted {
		d.Code = l.roomFor(&t, r.Size(), BytesMax)
	}
	if d.Code != Admitted {
		t.revert()
		return d
	}
	return l.enter(&t, r)
}

// Check returns the decision that Reserve would come to for charges under a new key, and
// changes nothing. Its sequence is 0.
func (l *Ledger) Check(charges []Charge) Decision {
	if code := flawOf(charges); code != Admitted {
		return Decision{Code: code}
	}
	var t trial
	d := l.try(&t, charges)
	if d.Code == Admitted {
		d.Code = l.roomFor(&t, (&Reservation{Charges: charges}).Size(), BytesMax)
	}
	t.revert()
	return d
}

// ReserveOverdraft enters a reservation regardless of the limits, as for an object that exists already.
// Otherwise it is like Reserve; it never decides Exceeded.
func (l *Ledger) ReserveOverdraft(r Reservation) Decision { return l.adopt(r, BytesMax) }

// adopt is Adopt with another budget.
func (l *Ledger) adopt(r Reservation, bytesMax int) Decision {
	if d := l.screen(&r); d.Code != 0 {
		return d
	}
	var t trial
	d := l.tryAdopting(&t, r.Charges)
	if d.Code == Admitted {
		d.Code = l.roomFor(&t, r.Size(), bytesMax)
	}
	if d.Code != Admitted {
		t.revert()
		l.prune(r.Charges)
		return d
	}
	return l.enter(&t, r)
}

// Cancel drops a reservation and gives its charges back. Sequence 0 stands for any. It reports
// whether there was such a reservation.
func (l *Ledger) Cancel(key string, sequence int64) bool {
	r, ok := l.held(key, sequence)
	if !ok {
		return false
	}
	for i := range r.Charges {
		c := &r.Charges[i]
		l.pages[c.ResourceType].unreserve(c.Dimensions, c.Amount)
	}
	l.drop(&r)
	l.prune(r.Charges)
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
// returns the reservation as it was, for [Ledger.Reinstate], and reports false if there is none, it is an amendment, the new
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
	l.drop(&before)
	l.record(id)
	l.sequence++
	after.Sequence = l.sequence
	l.reservations[after.Key] = after
	l.bytes.reservations += after.Size()
	return before, true
}

// Reinstate undoes [Ledger.Rename] to a key, which recorded id, if the reservation is there still.
func (l *Ledger) Reinstate(before Reservation, key, id string) {
	renamed, ok := l.reservations[key]
	if !ok {
		return
	}
	l.drop(&renamed)
	l.Forget(id)
	l.reservations[before.Key] = before
	l.bytes.reservations += before.Size()
}

// Settle turns a reservation into usage and counts its claim once in every row it charges.
// Sequence 0 stands for any. It reports whether there was such a reservation; amendments end by
// [Ledger.SettleAmendment].
func (l *Ledger) Settle(key string, sequence int64) bool {
	r, ok := l.held(key, sequence)
	if !ok || r.amends() {
		return false
	}
	for i := range r.Charges {
		c := &r.Charges[i]
		l.pages[c.ResourceType].settle(c.Dimensions, c.Amount)
	}
	l.drop(&r)
	return true
}

// screen answers what needs no look at the pages, and leaves the code 0 if that is not enough.
func (l *Ledger) screen(r *Reservation) Decision {
	if !validKey(r.Key) {
		return Decision{Code: KeyInvalid}
	}
	if existing, ok := l.reservations[r.Key]; ok {
		return Decision{Code: Admitted, Sequence: existing.Sequence, Existing: true}
	}
	if code := r.flaw(); code != Admitted {
		return Decision{Code: code}
	}
	return Decision{}
}

// try decides valid charges. The trial must be entered or reverted afterwards.
func (l *Ledger) try(t *trial, charges []Charge) Decision {
	if !t.admit(l, charges) {
		return Decision{Code: Exceeded, Shortages: t.shortages()}
	}
	return Decision{Code: t.fits()}
}

// tryAdopting decides valid charges regardless of the limits. The trial must be entered or
// reverted afterwards.
func (l *Ledger) tryAdopting(t *trial, charges []Charge) Decision {
	for i := range charges {
		l.pageOf(charges[i].ResourceType)
	}
	t.admit(l, charges)
	if !t.insist() {
		return Decision{Code: Overflow}
	}
	return Decision{Code: t.fits()}
}

func (l *Ledger) enter(t *trial, r Reservation) Decision {
	t.enter()
	l.sequence++
	r.Sequence = l.sequence
	r.Charges, r.Replaces = slices.Clone(r.Charges), slices.Clone(r.Replaces)
	l.reservations[r.Key] = r
	l.bytes.reservations += r.Size()
	return Decision{Code: Admitted, Sequence: r.Sequence}
}

func (l *Ledger) drop(r *Reservation) {
	delete(l.reservations, r.Key)
	l.bytes.reservations -= r.Size()
}

// held finds a reservation. Sequence 0 stands for any.
func (l *Ledger) held(key string, sequence int64) (Reservation, bool) {
	r, ok := l.reservations[key]
	return r, ok && (sequence == 0 || sequence == r.Sequence)
}

// pageOf returns the page of a resource type, which may be new.
func (l *Ledger) pageOf(resourceType string) *account {
	p := l.pages[resourceType]
	if p == nil {
		p = newAccount(resourceType, &l.bytes.rows)
		l.pages[resourceType] = p
	}
	return p
}

// prune drops the pages of charges that nothing stands on any more.
func (l *Ledger) prune(charges []Charge) {
	for i := range charges {
		l.prunePage(charges[i].ResourceType)
	}
}

func (l *Ledger) prunePage(resourceType string) {
	if p := l.pages[resourceType]; p != nil && p.mentions == 0 && len(p.rows) == 0 {
		delete(l.pages, resourceType)
	}
}
