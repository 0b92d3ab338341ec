package ledger_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bursar/bursar/internal/ledger"
)

// replica is a process that watches all kinds, and decides.
type replica struct {
	holder               string
	namespaces, policies ledger.Version
	inventories          []*inventory
	// unrecorded are its admissions from its slice.
	unrecorded []*request
	// isWriting is true while the replica waits for the answer of a write. It writes nothing else then.
	isWriting bool
}

// inventory is what a replica has seen of one kind.
type inventory struct {
	kind    *objectKind
	at      ledger.Version
	objects map[string]object
	deleted map[string]bool
	// listedAt is the version of the latest list: the replica knows all changes since then.
	listedAt ledger.Version
	// isUndefined is true once the replica noticed that the kind has no definition. The objects must have gone, and
	// there is no list to tell their version.
	isUndefined bool
}

// newReplica starts a process, which lists everything as of some versions.
func (c *cluster) newReplica() *replica {
	r := &replica{holder: fmt.Sprintf("process-%d", len(c.replicas)+len(c.dead))}
	for _, k := range c.kinds {
		i := &inventory{kind: k}
		i.list(ledger.Version(c.s.choose("list", len(k.history)+1)))
		r.inventories = append(r.inventories, i)
	}
	r.policies = ledger.Version(c.s.choose("policies", len(c.factors)))
	r.namespaces = 1 + ledger.Version(c.s.choose("namespaces", len(c.owned)-1))
	return r
}

func (c *cluster) isAlive(r *replica) bool { return slices.Contains(c.replicas, r) }

// kill ends a process, and starts another. Only its slice is left of it.
func (c *cluster) kill(i int) {
	c.dead = append(c.dead, c.replicas[i].holder)
	c.replicas[i] = c.newReplica()
}

func (r *replica) inventoryOf(k *objectKind) *inventory {
	at := slices.IndexFunc(r.inventories, func(i *inventory) bool { return i.kind == k })
	return r.inventories[at]
}

// list has a replica list the objects anew: it forgets the deletions that it has seen.
func (i *inventory) list(version ledger.Version) {
	if !i.isUndefined {
		i.at, i.objects, i.deleted, i.listedAt = version, i.kind.objectsAt(version), map[string]bool{}, version
	}
}

// watch has a replica see the next change.
func (i *inventory) watch() {
	if i.at == i.kind.now() || i.isUndefined {
		return
	}
	change := i.kind.history[i.at]
	i.at++
	if change.isDeleted {
		delete(i.objects, change.id)
		i.deleted[change.id] = true
		return
	}
	i.objects[change.id] = change.object
}

// noticeDefinitions has a replica see which kinds are defined. It drops what it knows of any other, and lists those
// that are defined again.
func (c *cluster) noticeDefinitions(r *replica) {
	for _, i := range r.inventories {
		switch k := i.kind; {
		case !k.isDefined:
			i.isUndefined, i.objects, i.deleted = true, nil, nil
		case i.isUndefined:
			i.isUndefined = false
			i.list(k.definedAt + ledger.Version(c.s.choose("list", int(k.now()-k.definedAt)+1)))
		}
	}
}

// catchUp may have a replica see what the stored ledger has observed.
func (c *cluster) catchUp(r *replica) {
	for _, o := range c.stored.Observations {
		i := r.inventories[slices.IndexFunc(c.kinds, func(k *objectKind) bool { return k.name == o.Kind })]
		if i.at >= o.Basis.Objects {
			continue
		}
		switch c.s.choose("catch up", 3) {
		case 0:
			i.list(o.Basis.Objects)
		case 1:
			for i.at < o.Basis.Objects && !i.isUndefined {
				i.watch()
			}
		}
	}
}

// observer is a replica that tells the ledger what it knows about a kind.
type observer struct {
	*cluster
	*replica
	*inventory
}

// observation is what the replica's inventory says now.
func (o observer) observation() ledger.Observation {
	basis := ledger.Basis{Objects: o.at, Namespaces: o.namespaces, Policies: o.policies}
	return ledger.Observation{Kind: o.kind.name, Basis: basis, Demands: o.demands(o.objects, basis)}
}

func (o observer) Visibility(pending *ledger.Reservation) ledger.Visibility {
	isOpen := func(q *request) bool {
		return !q.isReported && q.reportedTo != o.replica || q.endedAt > o.at && !o.isUndefined
	}
	return ledger.Visibility{
		Version:   o.objects[pending.Awaits.ID].version,
		IsDeleted: o.deleted[pending.Awaits.ID],
		HasEnded: !slices.ContainsFunc(o.requests, func(q *request) bool {
			return q.key() == pending.Key && isOpen(q)
		}),
	}
}

// ChangesSince compares the objects with those at an earlier version, if the replica has watched since then and nothing
// else has changed.
func (o observer) ChangesSince(earlier ledger.Basis) (changes []ledger.ObjectChange, hasAll bool) {
	if !o.knowsSince(earlier) {
		return nil, false
	}
	if !o.owned[o.namespaces] {
		return nil, true
	}
	before := o.kind.objectsAt(earlier.Objects)
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if _, exists := o.objects[id]; !exists {
			changes = append(changes, o.change(ledger.KindReleased, id, before[id], object{}))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(o.objects)) {
		switch former, existed := before[id]; {
		case !existed:
			changes = append(changes, o.change(ledger.KindAdmitted, id, object{}, o.objects[id]))
		case former != o.objects[id]:
			changes = append(changes, o.change(ledger.KindChanged, id, former, o.objects[id]))
		}
	}
	return changes, true
}

func (o observer) knowsSince(earlier ledger.Basis) bool {
	return !o.isUndefined && earlier.Objects >= o.listedAt && earlier.Namespaces == o.namespaces && earlier.Policies == o.policies
}

func (o observer) change(kind ledger.ChangeKind, id string, before, after object) ledger.ObjectChange {
	factor := o.factors[o.policies]
	return ledger.ObjectChange{Kind: kind, ID: id, Subject: id, Changes: []ledger.Charge{
		{ResourceType: mapsType, Dimensions: before.dimensions(), Amount: -before.demand * factor},
		{ResourceType: mapsType, Dimensions: after.dimensions(), Amount: after.demand * factor},
	}}
}

// commit changes the stored ledger, together with the observations of the replica. The answer of the write may get
// lost: then the replica does the same operation again on what is stored after some other things have happened. It
// reports whether the replica knows that the change is stored.
func (c *cluster) commit(r *replica, operation func(*ledger.Ledger)) bool {
	c.t.Helper()
	if r.isWriting || !c.isAlive(r) {
		return false
	}
	if !c.isSettling && c.s.choose("answer", 4) == 3 {
		if l := c.decide(r, operation); c.s.choose("stored", 3) > 0 {
			c.store(r, l)
		}
		r.isWriting = true
		for range c.s.choose("meanwhile", 4) {
			c.step()
		}
		r.isWriting = false
		if !c.isAlive(r) {
			return false
		}
		c.catchUp(r)
	}
	c.store(r, c.decide(r, operation))
	return true
}

// decide does an operation on what is stored, and stores nothing.
func (c *cluster) decide(r *replica, operation func(*ledger.Ledger)) *ledger.Ledger {
	c.t.Helper()
	l, err := ledger.Restore(c.stored)
	if err != nil {
		c.t.Fatalf("restore: %v", err)
	}
	c.observe(r, l)
	operation(l)
	c.observe(r, l)
	return l
}

func (c *cluster) store(r *replica, l *ledger.Ledger) {
	c.t.Helper()
	l.MarkStored()
	c.stored = l.Snapshot()
	c.check(l)
	for _, i := range r.inventories {
		c.checkEnded(observer{c, r, i}, l)
	}
}

// observe brings a ledger up to what a replica has seen. Where it noticed that a kind has no definition, it asks the
// API server again, after it has read the ledger: then no object that the ledger observed is left.
func (c *cluster) observe(r *replica, l *ledger.Ledger) {
	c.t.Helper()
	for _, i := range r.inventories {
		switch o := (observer{c, r, i}); {
		case !i.isUndefined:
			c.observeKind(o, l)
		case !i.kind.isDefined:
			// Requests may still await objects of the kind: an observation without objects ends them.
			l.ForgetKind(i.kind.name)
			c.observeKind(o, l)
			l.ForgetKind(i.kind.name)
		}
	}
}

func (c *cluster) observeKind(o observer, l *ledger.Ledger) {
	c.t.Helper()
	before := l.Observation(o.kind.name).Basis
	recounted := recounts(l)
	uptake, err := l.Observe(o.observation(), o)
	if err != nil {
		c.t.Fatalf("observe: %v", err)
	}
	c.countedTwice = c.countedTwice || uptake.CountsTwice
	after := l.Observation(o.kind.name).Basis
	if !after.Covers(before) {
		c.t.Fatalf("the observation went back from %+v to %+v", before, after)
	}
	if o.knowsSince(before) && recounts(l) > recounted && !c.countedTwice {
		c.t.Fatalf("the replica knows what changed between %+v and %+v, and the ledger records a recount", before, after)
	}
}

// recounts counts the records of changes that nobody could explain.
func recounts(l *ledger.Ledger) int {
	count := 0
	for _, record := range l.Snapshot().Journal.Records {
		if record.Kind == ledger.KindRecounted {
			count++
		}
	}
	return count
}

// review decides a request by a replica, from its slice if that has enough.
func (c *cluster) review(r *replica, k *objectKind, id string, before, after object) {
	if !k.isDefined {
		return
	}
	c.reviews++
	q := &request{
		number: c.reviews, kind: k, id: id, after: before.version, object: after, namespaces: r.namespaces, policies: r.policies,
	}
	c.requests = append(c.requests, q)
	if q.growth = after.demand; before.isInEU == after.isInEU {
		q.growth -= before.demand
	}
	if q.growth *= c.factors[r.policies]; q.growth <= 0 || !c.owned[r.namespaces] {
		q.growth, q.isAdmitted = 0, true // it needs nothing
		return
	}
	if q.after == 0 && !after.isInEU && c.restOfSlice(r) >= q.growth {
		q.holder, q.isAdmitted = r.holder, true
		r.unrecorded = append(r.unrecorded, q)
		return
	}

	var d ledger.Decision
	isStored := c.commit(r, func(l *ledger.Ledger) {
		q.isOutdated = k.objectsAt(k.now())[id].version != q.after
		if d = l.Reserve(q.reservation()); d.Code == ledger.Admitted && !d.Existing {
			c.checkAdmitted(q)
		}
	})
	if isStored && d.Code == ledger.Admitted {
		q.isAdmitted, q.isRecorded = true, true
		c.endUndefined(q)
		return
	}
	c.requests = without(c.requests, q)
}

// endUndefined ends a request for a kind that has no definition since the review began.
func (c *cluster) endUndefined(q *request) {
	if !q.kind.isDefined {
		c.end(q, false)
	}
}

// requestSlice requests a slice of an amount as far as that is available, and at least of what the replica admitted
// from its slice before.
func (c *cluster) requestSlice(r *replica, amount ledger.Amount) {
	c.commit(r, func(l *ledger.Ledger) {
		s := ledger.Slice{Holder: r.holder}
		if granted := max(growthOf(r.unrecorded), min(l.AvailableToSlice(r.holder, mapsType), amount)); granted > 0 {
			s.Amounts = map[string]ledger.Amount{mapsType: granted}
		}
		l.SetSlice(s)
	})
}

func (c *cluster) restOfSlice(r *replica) ledger.Amount {
	var rest ledger.Amount
	for _, s := range c.stored.Slices {
		if s.Holder == r.holder {
			rest = s.Amounts[mapsType]
		}
	}
	return rest - growthOf(r.unrecorded)
}

// record moves some of what a replica admitted from its slice to the ledger.
func (c *cluster) record(r *replica) {
	if len(r.unrecorded) == 0 {
		return
	}
	c.catchUp(r)
	batch := slices.Clone(r.unrecorded[:1+c.s.choose("batch", len(r.unrecorded))])

	var rest []*request // not recorded after this write
	isStored := c.commit(r, func(l *ledger.Ledger) {
		rest = r.unrecorded
		for _, q := range batch {
			o := observer{c, r, r.inventoryOf(q.kind)}
			if !o.canRecord(l) {
				continue
			}
			rest = without(rest, q)
			keep := map[string]ledger.Amount{mapsType: growthOf(rest)}
			reservation := q.reservation()
			if l.EndInSlice(r.holder, &reservation, o, keep) {
				continue
			}
			if d := l.ReserveInSlice(r.holder, reservation, keep); d.Code != ledger.Admitted {
				c.t.Fatalf("record: %+v", d)
			}
		}
	})
	if !isStored {
		return
	}
	for _, q := range r.unrecorded {
		q.isRecorded = !slices.Contains(rest, q)
	}
	r.unrecorded = rest
}

// canRecord reports whether the replica has seen all that the ledger has observed: it then knows which requests are
// decided. No object is left of a kind without a definition.
func (o observer) canRecord(l *ledger.Ledger) bool {
	if o.isUndefined {
		return !o.kind.isDefined
	}
	return l.Observation(o.kind.name).Basis == o.observation().Basis
}

// endSlices revokes the slices of dead processes, and ends them once their requests have ended, as far as the replica
// has seen that.
func (c *cluster) endSlices(r *replica) {
	for _, holder := range c.dead {
		isStored := c.commit(r, func(l *ledger.Ledger) {
			l.RevokeSlice(holder)
			if ended, canKnow := c.endedOf(holder); canKnow {
				l.EndSlice(holder, ended)
			}
		})
		if !isStored {
			return
		}
	}
}

// endedOf returns a basis by which all requests have ended that a process has admitted from its slice, for each kind. A
// kind without a definition has no objects, and none of its requests is in flight.
func (c *cluster) endedOf(holder string) (ended map[string]ledger.Basis, canKnow bool) {
	ended = map[string]ledger.Basis{}
	for _, k := range c.kinds {
		if k.isDefined {
			ended[k.name] = ledger.Basis{}
		}
	}
	for _, q := range c.requests {
		basis, isDefined := ended[q.kind.name]
		if q.holder != holder || !isDefined {
			continue
		}
		if !q.isReported {
			return nil, false
		}
		ended[q.kind.name] = ledger.Basis{
			Objects: max(basis.Objects, q.endedAt), Namespaces: max(basis.Namespaces, q.namespaces), Policies: max(basis.Policies, q.policies),
		}
	}
	return ended, true
}

// setLimits has a replica take over what an administrator grants.
func (c *cluster) setLimits(r *replica, n limits) {
	c.commit(r, func(l *ledger.Ledger) {
		if _, err := l.SetGrant(n.grant()); err != nil {
			c.t.Fatalf("set the grant: %v", err)
		}
	})
}
