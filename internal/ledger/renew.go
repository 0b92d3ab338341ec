package ledger

// Renew gives a reservation a new sequence: a process with only the former one can no longer end it. Sequence 0 stands
// for any. It reports whether there is such a reservation.
func (l *Ledger) Renew(key string, sequence int64) (renewed int64, ok bool) {
	r, ok := l.find(key, sequence)
	if !ok {
		return 0, false
	}
	l.sequence++
	r.Sequence = l.sequence
	put(&l.log, l.reservations, key, r)
	return r.Sequence, true
}
