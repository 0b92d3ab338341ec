package ledger

import "slices"

// recordObserved records how demand differs from what the ended requests had taken. Usually it does not, and there is
// nothing to record. With all changes of objects, each record names its object, and the rest is a recount.
func (l *Ledger) recordObserved(made *observedChange) {
	if l.journal == nil {
		return
	}

	recorded, taken := l.recordEnded(made.ended)
	if made.hasObjects {
		recorded = append(recorded, l.recordObjects(made, taken)...)
	}

	observed := make([]Charge, 0, len(made.demands))
	for i := range made.demands {
		d := &made.demands[i]
		observed = append(observed, Charge{d.ResourceType, d.Dimensions, d.Amount})
	}
	l.record(Record{Kind: KindRecounted}, differences(observed, recorded))
}

// recordEnded records the ends of requests without an observed object. It returns the charges of the others, which were
// recorded with the admission: all of them, and those for each object that did not count beside its request.
func (l *Ledger) recordEnded(ended []endedRequest) (recorded []Charge, taken map[string][]Charge) {
	taken = map[string][]Charge{}
	for i := range ended {
		r := &ended[i]
		switch {
		case r.isObserved:
			if !r.wasObserved {
				taken[r.Awaits.ID] = append(taken[r.Awaits.ID], r.Charges...)
			}
			recorded = append(recorded, r.Charges...)
		case r.isReleased:
			l.record(recordOf(KindReleased, &r.Reservation), negated(r.Charges))
		default:
			l.recordCanceled(&r.Reservation)
		}
	}
	return recorded, taken
}

// recordObjects records the changes of single objects, beyond what was taken for each, and returns the sum of all
// records.
//
// An object that counts beside its pending request has a record already, with the admission of the request. So what the
// object adds to that is a recount, and so is what the end of the request takes away. It is the same with an object
// whose request has yet to become part of the ledger.
func (l *Ledger) recordObjects(made *observedChange, taken map[string][]Charge) (recorded []Charge) {
	for i := range made.objects {
		o := &made.objects[i]
		before := taken[o.ID]
		delete(taken, o.ID)
		if made.isDouble[o.ID] || o.IsPending && before == nil {
			continue
		}

		kind := o.Kind
		if kind == KindAdmitted && before != nil {
			kind = KindChanged // the request was recorded
		}
		differs := slices.Collect(differences(o.Changes, before))
		l.record(Record{Kind: kind, Subject: o.Subject, Actor: o.Actor}, slices.Values(differs))
		recorded = append(recorded, differs...)
	}

	for i := range made.ended { // without an effect on the demand of their objects
		if r := &made.ended[i]; r.isObserved && taken[r.Awaits.ID] != nil {
			l.recordCanceled(&r.Reservation)
			recorded = slices.AppendSeq(recorded, negated(r.Charges))
		}
	}
	return recorded
}
