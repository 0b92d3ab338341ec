package ledger

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// Observation is what the objects of one kind demand of one consumer.
type Observation struct {
	// Kind identifies the kind of the objects. It is at most [KindBytesMax] bytes long.
	Kind  string
	Basis Basis
	// Demands have distinct pairs of resource type and dimensions. They may exceed all limits.
	Demands []Demand
}

// Demand is what some objects demand together of one resource type and dimension set.
type Demand struct {
	ResourceType string
	Dimensions   Dimensions
	// Amount is positive, or 0 for objects that demand nothing now.
	Amount Amount
	// Objects counts them, at least one.
	Objects int64
}

// Observer tells a ledger what it knows as of an observation.
type Observer interface {
	// Visibility returns what is known about a pending request for an object of the observed kind.
	Visibility(pending *Reservation) Visibility
	// ChangesSince returns by how much the demand of each object differs from that as of an earlier basis. It reports
	// false if it does not know all of them. Some may be missing all the same: a list of objects may rest on later policies
	// and namespaces than it says. The record of the ledger has the rest.
	ChangesSince(earlier Basis) (changes []ObjectChange, hasAll bool)
}

// ObjectChange is by how much the demand of one object differs from an earlier one, for the record of it.
type ObjectChange struct {
	// Kind is [KindAdmitted] if the object has appeared, [KindReleased] if it was deleted, and otherwise [KindChanged].
	Kind ChangeKind
	// ID identifies the object as in [Awaited], and Subject is the subject of the record.
	ID, Subject string
	// Actor is the user who created the object, if the observer knows.
	Actor string
	// IsPending is true if the record of a request follows that names the object. Then this change is part of a recount.
	IsPending bool
	// Changes are the differences, by resource type and dimensions.
	Changes []Charge
}

// Uptake is what an observation did to a ledger.
type Uptake struct {
	// HasChanged is true if demand or requests have changed. Without that, nothing needs to be stored.
	HasChanged bool
	// ChangesUsage is true if observed demand and requests together have become more or less. An object that only takes
	// the place of its request changes no figure that anybody sees.
	ChangesUsage bool
	// FreesQuota is true if some demand has become smaller, or a request ended.
	FreesQuota bool
	// Ended are the keys of the ended requests.
	Ended []string
	// IsBehind is true if the ledger keeps a later observation. Some requests may have ended all the same.
	IsBehind bool
	// CountsTwice is true if an object counts beside its pending request, because observed demand rests on earlier
	// policies or namespaces than the request. Observe by later ones soon.
	CountsTwice bool
}

// Observe brings the ledger up to an observation, and ends exactly the pending requests that it decides, in one step
// (rules 1 to 3). So each admitted request counts once: as pending until its effect is observed, and as observed from
// then on.
//
// Observed demand only moves forward: to an observation whose basis covers the former one. Any other observation leaves
// the demand as it is. If its objects are no later, it still ends the requests that it decides, because the ledger has
// observed their effect already.
//
// The observer tells what it knows at o.Basis.
//
// Observe fails, and changes nothing, if the observation is invalid, or if the demand is beyond the bounds of a ledger.
// Admit nothing more for this consumer until an observation fits.
func (l *Ledger) Observe(o Observation, by Observer) (Uptake, error) {
	if err := o.check(); err != nil {
		return Uptake{}, fmt.Errorf("observation of %s: %w", o.Kind, err)
	}

	stored := l.observations[o.Kind]
	isNewer := o.Basis.Covers(stored.Basis)
	if !isNewer && o.Basis.Objects > stored.Basis.Objects {
		return Uptake{IsBehind: true}, nil
	}

	trial := l.Begin()
	resume := l.pauseJournal()
	observed := stored.Basis
	if isNewer {
		observed = o.Basis
	}
	bytesMax := max(l.Bytes(), observedBytesMax)
	made := l.endDecided(o, stored.Basis, observed, by)
	if isNewer {
		made.objects, made.hasObjects = by.ChangesSince(stored.Basis)
		made.demands = demandChanges(o.Demands, stored.Demands)
		if err := l.setObservation(o, made.demands, bytesMax); err != nil {
			trial.Discard()
			return Uptake{}, fmt.Errorf("observation of %s: %w", o.Kind, err)
		}
	}
	resume()
	trial.Keep()

	l.recordObserved(made)
	isLess := func(d Demand) bool { return d.Amount < 0 }
	uptake := Uptake{
		HasChanged:   len(made.demands)+len(made.ended) > 0,
		ChangesUsage: made.changesUsage(),
		FreesQuota:   len(made.ended) > 0 || slices.ContainsFunc(made.demands, isLess),
		IsBehind:     !isNewer,
		CountsTwice:  made.countsTwice,
	}
	for i := range made.ended {
		uptake.Ended = append(uptake.Ended, made.ended[i].Key)
	}
	return uptake, nil
}

// ForgetKind drops the observed demand of a kind without a definition: all its objects have gone. It reports whether
// there was any demand. Look for the definition after the ledger was read: if the kind was defined again meanwhile, an
// earlier answer would drop the demand of new objects. A kind that cannot be observed for a while keeps its demand:
// then do not call it.
//
// Pending requests for objects of the kind stay. An observation without objects ends them once they have ended; then
// forget the kind again.
func (l *Ledger) ForgetKind(kind string) bool {
	o, isThere := l.observations[kind]
	if !isThere {
		return false
	}
	changes := demandChanges(nil, o.Demands)
	for _, change := range changes {
		_ = l.changeObserved(change) // less always fits
	}
	drop(&l.log, l.observations, kind)
	l.bytes.observations -= o.size()
	l.recordObserved(&observedChange{demands: changes})
	return true
}

// Observation returns the observed demand of a kind. It is zero if the kind was never observed. Do not modify its
// demands.
func (l *Ledger) Observation(kind string) Observation { return l.observations[kind] }

// Observations yields the observed demand in the order of the kinds. Do not modify their demands.
func (l *Ledger) Observations() iter.Seq[Observation] {
	return func(yield func(Observation) bool) {
		for _, kind := range sortedKeys(l.observations) {
			if !yield(l.observations[kind]) {
				return
			}
		}
	}
}

// EndInSlice ends a request that the holder of a slice has admitted and not recorded, if it is decided already: its
// charges leave the slice, and need no reservation. The observer has seen exactly what the ledger has observed. It
// reports false if the request is not decided: then see [Ledger.ReserveInSlice].
//
// keep has the amounts that the slice must go on covering, by resource type: what the holder has admitted besides, and
// not recorded yet. The call makes no amount smaller than that. So a holder that does not know whether its write
// succeeded may read the ledger and end the request again: this leaves no trace, and without keep the charges would
// leave the slice twice.
func (l *Ledger) EndInSlice(holder string, r *Reservation, by Observer, keep map[string]Amount) bool {
	observed := l.observations[r.Awaits.Kind].Basis
	if !r.Awaits.isDecided(by.Visibility(r), observed.Objects, observed) {
		return false
	}
	l.takeFromSlice(holder, r.Charges, keep)
	return true
}

// NameObserved records the admission of a request that [Ledger.EndInSlice] has ended, in place of a part of the recount
// by which an observation added its object.
func (l *Ledger) NameObserved(r *Reservation) {
	if l.journal == nil {
		return
	}
	l.record(recordOf(KindAdmitted, r), slices.Values(r.Charges))
	l.record(Record{Kind: KindRecounted}, negated(r.Charges))
}

// EndSlice removes the slice of a process that has died, and reports whether it did (rule 6). It does so once the slice
// is revoked and observed demand has all objects that the process may have admitted. ended has all defined kinds of
// these objects, at least one, each with a basis. By then the last such request had ended, well or not, and no review
// of the process rests on later namespaces or policies: demand by earlier ones may be smaller than what the slice
// covers.
func (l *Ledger) EndSlice(holder string, ended map[string]Basis) bool {
	return l.slices[holder].IsRevoked && len(ended) > 0 && l.hasObserved(ended) && l.DropSlice(holder)
}

// hasObserved reports whether the observed demand contains everything up to a basis of each of some kinds.
func (l *Ledger) hasObserved(kinds map[string]Basis) bool {
	for kind, basis := range kinds {
		if !l.observations[kind].Basis.Covers(basis) {
			return false
		}
	}
	return true
}

// setObservation replaces the observation of a kind, and adds the changes to the balances. After an error the ledger
// has a part of them.
func (l *Ledger) setObservation(o Observation, changes []Demand, bytesMax int) error {
	before := l.observations[o.Kind]
	l.bytes.observations += o.size() - before.size()
	put(&l.log, l.observations, o.Kind, o)

	// What becomes less makes room for what becomes more.
	inOrder := slices.SortedStableFunc(slices.Values(changes), func(a, b Demand) int {
		return cmp.Or(cmp.Compare(a.Amount, b.Amount), cmp.Compare(a.Objects, b.Objects))
	})
	for _, change := range inOrder {
		if err := l.changeObserved(change); err != nil {
			return err
		}
	}
	if l.Bytes() > bytesMax {
		return fmt.Errorf("the ledger would take %d bytes, at most %d are allowed", l.Bytes(), bytesMax)
	}
	return nil
}

// changeObserved adds a change of demand to its balance.
func (l *Ledger) changeObserved(change Demand) error {
	a := l.accountOf(change.ResourceType)
	defer l.pruneAccount(change.ResourceType)
	after := a.balances[change.Dimensions]
	after.observed += change.Amount
	after.objects += change.Objects
	if !a.fits(change.Dimensions, after) {
		return fmt.Errorf("the demand for %s does not fit beside its other demand, or has too many dimension sets", change.ResourceType)
	}
	a.changeBalance(change.Dimensions, after)
	return nil
}

// observedChange is what an observation changes.
type observedChange struct {
	// demands are the changes of observed demand.
	demands []Demand
	// ended are the requests that the observation decides, in the order of their keys.
	ended []endedRequest
	// countsTwice is as in [Uptake].
	countsTwice bool
	// isDouble has the IDs of the objects that count beside a pending request, or may have done so until now.
	isDouble map[string]bool
	// objects are the changes of single objects. hasObjects is true if these are all.
	objects    []ObjectChange
	hasObjects bool
}

// changesUsage reports whether the ended requests are more or less than what observed demand has grown by.
func (c *observedChange) changesUsage() bool {
	type target struct {
		resourceType string
		dimensions   Dimensions
	}
	more := map[target]Amount{}
	for _, d := range c.demands {
		more[target{d.ResourceType, d.Dimensions}] += d.Amount
	}
	for i := range c.ended {
		for _, charge := range c.ended[i].Charges {
			more[target{charge.ResourceType, charge.Dimensions}] -= charge.Amount
		}
	}
	for _, amount := range more {
		if amount != 0 {
			return true
		}
	}
	return false
}

// endedRequest is a request that is no longer pending.
type endedRequest struct {
	Reservation
	// isObserved is true if observed demand has its object as of a version after the review. It is false if the ledger
	// has observed a later version: the object was gone by then, or that observation would have ended the request.
	isObserved bool
	// wasObserved is true if an earlier observation has that version, too: it counted beside the request.
	wasObserved bool
	// isReleased is true if the object, or that version of it, existed for some time.
	isReleased bool
}

// endDecided ends the pending requests that an observation decides, and returns them. observed is the basis of observed
// demand.
func (l *Ledger) endDecided(o Observation, before, observed Basis, by Observer) *observedChange {
	made := &observedChange{isDouble: map[string]bool{}}
	for _, key := range sortedKeys(l.reservations) {
		r := l.reservations[key]
		if r.Awaits == nil || r.Awaits.Kind != o.Kind {
			continue
		}

		v := by.Visibility(&r)
		isVisible := r.Awaits.isVisible(v)
		if !r.Awaits.isDecided(v, o.Basis.Objects, observed) {
			made.countsTwice = made.countsTwice || isVisible
			made.isDouble[r.Awaits.ID] = made.isDouble[r.Awaits.ID] || isVisible
			continue
		}

		l.Cancel(key, 0)
		made.ended = append(made.ended, endedRequest{
			Reservation: r, isObserved: isVisible && observed == o.Basis, isReleased: isVisible || v.IsDeleted,
			wasObserved: isVisible && v.Version <= before.Objects,
		})
		if isCreate := r.Awaits.After == 0; isCreate && !isVisible {
			made.isDouble[r.Awaits.ID] = true // if the object was observed before, it counted beside the request
		}
	}
	return made
}

// demandChanges returns the demands of after minus those of before, without zeros. Both are sorted.
func demandChanges(after, before []Demand) []Demand {
	var all []Demand
	for len(after) > 0 || len(before) > 0 {
		order := 0
		switch {
		case len(before) == 0:
			order = -1
		case len(after) == 0:
			order = 1
		default:
			order = after[0].compare(before[0])
		}
		var d Demand
		if order <= 0 {
			d, after = after[0], after[1:]
		}
		if order >= 0 {
			d = Demand{before[0].ResourceType, before[0].Dimensions, d.Amount - before[0].Amount, d.Objects - before[0].Objects}
			before = before[1:]
		}
		if d.Amount != 0 || d.Objects != 0 {
			all = append(all, d)
		}
	}
	return all
}

// compare orders demands by resource type and then dimensions.
func (d Demand) compare(e Demand) int {
	return cmp.Or(cmp.Compare(d.ResourceType, e.ResourceType), d.Dimensions.Compare(e.Dimensions))
}

func validKind(kind string) bool { return kind != "" && len(kind) <= KindBytesMax }

// check returns the first error of an observation, and sorts its demands.
func (o *Observation) check() error {
	if !validKind(o.Kind) {
		return fmt.Errorf("the kind must have 1 to %d bytes", KindBytesMax)
	}
	o.Demands = slices.SortedFunc(slices.Values(o.Demands), Demand.compare)
	for i, d := range o.Demands {
		switch {
		case !validResourceType(d.ResourceType):
			return fmt.Errorf("the resource type must have 1 to %d bytes", ResourceTypeBytesMax)
		case d.Amount < 0 || d.Objects < 1 || d.Objects > CountMax:
			return fmt.Errorf("demand for %s: %d by %d objects is out of range", d.ResourceType, d.Amount, d.Objects)
		case i > 0 && d.compare(o.Demands[i-1]) == 0:
			return fmt.Errorf("demand for %s (%s) is repeated", d.ResourceType, d.Dimensions)
		}
	}
	return nil
}

// observationBytes bounds from above the stored bytes besides texts, as in size.go.
const observationBytes = 160

// size bounds from above the stored bytes of the observation. Storage has none without a kind.
func (o *Observation) size() int {
	if o.Kind == "" {
		return 0
	}
	size := observationBytes + jsonLen(o.Kind)
	for i := range o.Demands {
		size += demandBytes + jsonLen(o.Demands[i].ResourceType) + jsonLen(o.Demands[i].Dimensions.canonical)
	}
	return size
}
