package ledgerstore

import "github.com/bursar/bursar/internal/ledger"

// knowing is an observer that knows, too, which requests have ended, and which objects have appeared by requests that
// the ledger does not have yet.
type knowing struct {
	ledger.Observer
	committer *committer
	basis     ledger.Basis
	// unrecorded are the admissions from the slice of this process, and named are the keys of those whose objects have
	// appeared in the changes.
	unrecorded []ledger.Reservation
	named      []string
}

// Visibility implements [ledger.Observer].
func (k *knowing) Visibility(pending *ledger.Reservation) ledger.Visibility {
	v := k.Observer.Visibility(pending)
	v.HasEnded = v.HasEnded || k.committer.store.ended.has(k.committer.consumer, pending)
	return v
}

// ChangesSince implements [ledger.Observer].
//
// An object that has appeared without a request in the ledger may have come by a slice. This process knows the requests
// of its own slice, and so who created the object. Another process names its own when it looks at them next.
func (k *knowing) ChangesSince(earlier ledger.Basis) (changes []ledger.ObjectChange, hasAll bool) {
	changes, hasAll = k.Observer.ChangesSince(earlier)
	if len(changes) == 0 {
		return changes, hasAll
	}

	requests := make(map[string]*ledger.Reservation, len(k.unrecorded))
	for i := range k.unrecorded {
		if r := &k.unrecorded[i]; r.Awaits != nil {
			requests[r.Awaits.ID] = r
		}
	}
	hasOthers := k.committer.hasForeignSlice()
	for i := range changes {
		change := &changes[i]
		r := requests[change.ID]
		switch {
		case r != nil && r.Awaits.IsEarly(k.Visibility(r), k.basis):
			change.IsPending = true
		case change.Kind != ledger.KindAdmitted:
		case r != nil:
			change.Actor = r.Actor
			k.named = append(k.named, r.Key)
		default:
			change.IsPending = hasOthers
		}
	}
	return changes, hasAll
}

// hasForeignSlice reports whether another process has a slice of the ledger.
func (c *committer) hasForeignSlice() bool {
	for s := range c.ledger.Slices() {
		if s.Holder != c.store.holder {
			return true
		}
	}
	return false
}

// name records who created the object of an ended request, if another process observed the object first.
func (c *committer) name(l *ledger.Ledger, r *ledger.Reservation) {
	isCreate := r.Awaits.After == 0
	if exists := c.stock.seen[r.Key].Version > 0; isCreate && exists && !c.stock.named.Has(r.Key) {
		l.NameObserved(r)
	}
	c.stock.named.Delete(r.Key)
}
