package ledger_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bursar/bursar/internal/ledger"
)

// The objects of a cluster are of this kind, and demand this type. Each demands it without dimensions or in the EU.
const (
	mapsKind = "configmaps"
	mapsType = "maps"
	// anyLimit is for all maps, and euLimit for more in the EU.
	anyLimit, euLimit = 8, 5
)

var inEU = dimensionsOf("region", "eu")

// cluster is a simulated API server with objects of one kind, the stored ledger of the consumer that pays for them, and
// replicas that decide and observe. It tells the truth by the history of all changes.
type cluster struct {
	t       reporter
	s       source
	history []change // that of version v is at v-1
	// factors of demand by the version of the policies, and owned by that of the namespaces: whether the consumer pays.
	factors []ledger.Amount
	owned   []bool
	stored  ledger.Snapshot
	// isSteady is false once something changed demand without a review.
	isSteady bool
	// journal follows the records of the ledger.
	journal  *reader
	replicas []*replica
	requests []*request
	reviews  int
	dead     []string // holders of slices
}

// change is the state of an object from a version on.
type change struct {
	object
	id        string
	isDeleted bool
}

// object is an object as of some version.
type object struct {
	demand  ledger.Amount // before the factor of the policy
	isInEU  bool
	version ledger.Version
}

func (o object) dimensions() ledger.Dimensions {
	if o.isInEU {
		return inEU
	}
	return ledger.Dimensions{}
}

// request is an admitted request to create or update an object.
type request struct {
	number int
	id     string
	after  ledger.Version
	object object
	growth ledger.Amount
	// namespaces and policies are the versions of the review.
	namespaces, policies ledger.Version
	// holder admitted it from its slice, and isRecorded is true once the ledger has it.
	holder     string
	isRecorded bool
	// endedAt is the version at which the request had ended, well or not. It is 0 while it is in flight. isReported is
	// true once replicas can know.
	endedAt    ledger.Version
	isReported bool
}

// replica is a process that watches the kind, with its inventory.
type replica struct {
	holder               string
	at                   ledger.Version
	namespaces, policies ledger.Version
	objects              map[string]object
	deleted              map[string]bool
	// unrecorded are its admissions from its slice.
	unrecorded []*request
	// listedAt is the version of its latest list: it knows all changes since then.
	listedAt ledger.Version
}

func newCluster(t reporter, s source) *cluster {
	c := &cluster{t: t, s: s, factors: []ledger.Amount{1}, owned: []bool{true}, isSteady: true, journal: &reader{t: t}}
	l := ledger.New()
	if _, err := l.SetGrant(ledger.Grant{UID: "g", Name: "g", Allowances: []ledger.Allowance{
		{ResourceType: mapsType, Amount: anyLimit},
		{ResourceType: mapsType, Selector: selectorOf(in("region", "eu")), Amount: euLimit},
	}}); err != nil {
		t.Fatalf("%v", err)
	}
	l.StartJournal(1)
	c.stored = l.Snapshot()
	for range 3 {
		c.replicas = append(c.replicas, c.newReplica())
	}
	return c
}

func (c *cluster) now() ledger.Version { return ledger.Version(len(c.history)) }

// objectsAt replays the history.
func (c *cluster) objectsAt(version ledger.Version) map[string]object {
	objects := map[string]object{}
	for _, change := range c.history[:version] {
		if delete(objects, change.id); !change.isDeleted {
			objects[change.id] = change.object
		}
	}
	return objects
}

// write makes the next version of an object.
func (c *cluster) write(id string, o object) {
	o.version = c.now() + 1
	c.history = append(c.history, change{object: o, id: id})
}

func (c *cluster) remove(id string) {
	c.history = append(c.history, change{id: id, isDeleted: true})
}

// newReplica starts a process, which lists everything as of some versions.
func (c *cluster) newReplica() *replica {
	r := &replica{holder: fmt.Sprintf("process-%d", len(c.replicas)+len(c.dead))}
	c.list(r, ledger.Version(c.s.choose("list", len(c.history)+1)))
	r.policies = ledger.Version(c.s.choose("policies", len(c.factors)))
	r.namespaces = ledger.Version(c.s.choose("namespaces", len(c.owned)))
	return r
}

// list has a replica list the objects anew: it forgets the deletions that it has seen.
func (c *cluster) list(r *replica, version ledger.Version) {
	r.at, r.objects, r.deleted, r.listedAt = version, c.objectsAt(version), map[string]bool{}, version
}

// watch has a replica see the next change.
func (c *cluster) watch(r *replica) {
	if r.at == c.now() {
		return
	}
	change := c.history[r.at]
	r.at++
	if change.isDeleted {
		delete(r.objects, change.id)
		r.deleted[change.id] = true
		return
	}
	r.objects[change.id] = change.object
}

// observation is what the replica's inventory says now.
func (c *cluster) observation(r *replica) ledger.Observation {
	basis := ledger.Basis{Objects: r.at, Namespaces: r.namespaces, Policies: r.policies}
	return ledger.Observation{Kind: mapsKind, Basis: basis, Demands: c.demands(r.objects, basis)}
}

// demands adds up what objects demand of the consumer.
func (c *cluster) demands(objects map[string]object, basis ledger.Basis) []ledger.Demand {
	if !c.owned[basis.Namespaces] {
		return nil
	}
	sums := map[ledger.Dimensions]ledger.Demand{}
	for _, o := range objects {
		sum := sums[o.dimensions()]
		sum.ResourceType, sum.Dimensions = mapsType, o.dimensions()
		sum.Amount += o.demand * c.factors[basis.Policies]
		sum.Objects++
		sums[o.dimensions()] = sum
	}
	return slices.Collect(maps.Values(sums))
}

// observer is a replica that tells the ledger what it knows.
type observer struct {
	*cluster
	*replica
}

func (o observer) Visibility(pending *ledger.Reservation) ledger.Visibility {
	c, r := o.cluster, o.replica
	isOpen := func(q *request) bool { return !q.isReported || q.endedAt > r.at }
	return ledger.Visibility{
		Version:   r.objects[pending.Awaits.ID].version,
		IsDeleted: r.deleted[pending.Awaits.ID],
		HasEnded: !slices.ContainsFunc(c.requests, func(q *request) bool {
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
	before := o.objectsAt(earlier.Objects)
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
	return earlier.Objects >= o.listedAt && earlier.Namespaces == o.namespaces && earlier.Policies == o.policies
}

func (o observer) change(kind ledger.ChangeKind, id string, before, after object) ledger.ObjectChange {
	factor := o.factors[o.policies]
	return ledger.ObjectChange{Kind: kind, ID: id, Subject: id, Changes: []ledger.Charge{
		{ResourceType: mapsType, Dimensions: before.dimensions(), Amount: -before.demand * factor},
		{ResourceType: mapsType, Dimensions: after.dimensions(), Amount: after.demand * factor},
	}}
}

// commit changes the stored ledger, together with the observation of the replica.
func (c *cluster) commit(r *replica, operation func(*ledger.Ledger)) {
	c.t.Helper()
	l, err := ledger.Restore(c.stored)
	if err != nil {
		c.t.Fatalf("restore: %v", err)
	}
	c.observe(r, l)
	operation(l)
	isBehind := c.observe(r, l)
	l.MarkStored()
	c.stored = l.Snapshot()
	c.check(l)
	if !isBehind {
		c.checkEnded(r, l)
	}
}

func (c *cluster) observe(r *replica, l *ledger.Ledger) (isBehind bool) {
	c.t.Helper()
	before := l.Observation(mapsKind).Basis
	recounted := c.recounts(l)
	uptake, err := l.Observe(c.observation(r), observer{c, r})
	if err != nil {
		c.t.Fatalf("observe: %v", err)
	}
	after := l.Observation(mapsKind).Basis
	if after.Objects < before.Objects || after.Namespaces < before.Namespaces || after.Policies < before.Policies {
		c.t.Fatalf("the observation went back from %+v to %+v", before, after)
	}
	if (observer{c, r}).knowsSince(before) && c.recounts(l) > recounted {
		c.t.Fatalf("the replica knows what changed between %+v and %+v, and the ledger records a recount", before, after)
	}
	return uptake.IsBehind
}

// recounts counts the records of changes that nobody could explain.
func (c *cluster) recounts(l *ledger.Ledger) int {
	count := 0
	for _, record := range l.Snapshot().Journal.Records {
		if record.Kind == ledger.KindRecounted {
			count++
		}
	}
	return count
}

func (q *request) key() string { return fmt.Sprintf("%s@%d/%d", q.id, q.after, q.number) }

// reservation is what a request holds until its effect is observed.
func (q *request) reservation() ledger.Reservation {
	return ledger.Reservation{
		Key:     q.key(),
		Charges: []ledger.Charge{{ResourceType: mapsType, Dimensions: q.object.dimensions(), Amount: q.growth}},
		Awaits: &ledger.Awaited{
			Kind: mapsKind, ID: q.id, After: q.after, Namespaces: q.namespaces, Policies: q.policies,
		},
	}
}

// review decides a request by a replica, from its slice if that has enough.
func (c *cluster) review(r *replica, id string, before, after object) {
	c.reviews++
	q := &request{number: c.reviews, id: id, after: before.version, object: after, namespaces: r.namespaces, policies: r.policies}
	if q.growth = after.demand; before.isInEU == after.isInEU {
		q.growth -= before.demand
	}
	if q.growth *= c.factors[r.policies]; q.growth <= 0 || !c.owned[r.namespaces] {
		q.growth = 0 // it needs nothing
		c.requests = append(c.requests, q)
		return
	}
	if q.after == 0 && !after.isInEU && c.restOfSlice(r) >= q.growth {
		q.holder = r.holder
		r.unrecorded = append(r.unrecorded, q)
		c.requests = append(c.requests, q)
		return
	}
	c.commit(r, func(l *ledger.Ledger) {
		if d := l.Reserve(q.reservation()); d.Code == ledger.Admitted {
			q.isRecorded = true
			c.requests = append(c.requests, q)
		}
	})
}

func (c *cluster) restOfSlice(r *replica) ledger.Amount {
	var rest ledger.Amount
	for _, s := range c.stored.Slices {
		if s.Holder == r.holder {
			rest = s.Amounts[mapsType]
		}
	}
	for _, q := range r.unrecorded {
		rest -= q.growth
	}
	return rest
}

// record moves what a replica admitted from its slice to the ledger, once the replica has seen all that the ledger has
// observed: it then knows which requests are decided.
func (c *cluster) record(r *replica) {
	c.commit(r, func(l *ledger.Ledger) {
		if l.Observation(mapsKind).Basis != c.observation(r).Basis {
			return
		}
		for _, q := range r.unrecorded {
			reservation := q.reservation()
			if l.EndInSlice(r.holder, &reservation, observer{c, r}) {
				continue
			}
			if d := l.ReserveFromSlice(r.holder, reservation); d.Code != ledger.Admitted {
				c.t.Fatalf("record: %+v", d)
			}
			q.isRecorded = true
		}
		r.unrecorded = nil
	})
}

// end ends a request in flight. The API server accepts it if its object is as reviewed.
func (c *cluster) end(q *request, isAccepted bool) {
	o, exists := c.objectsAt(c.now())[q.id]
	if isAccepted && (q.after == 0 || exists && o.version == q.after) {
		c.write(q.id, q.object)
	}
	c.remove("an object of another consumer") // so that endedAt is not 0
	q.endedAt = c.now()
}

func (c *cluster) inFlight() []*request {
	return slices.DeleteFunc(slices.Clone(c.requests), func(q *request) bool { return q.endedAt != 0 })
}

func (c *cluster) pickObject() (id string, o object, exists bool) {
	objects := c.objectsAt(c.now())
	if len(objects) == 0 {
		return "", object{}, false
	}
	id = pick(c.s, "object", slices.Sorted(maps.Keys(objects)))
	return id, objects[id], true
}

func (c *cluster) newObject(least, most int) object {
	return object{demand: ledger.Amount(least + c.s.choose("demand", most-least+1)), isInEU: c.s.choose("region", 3) == 0}
}

// kill ends a process, and starts another. Only its slice is left of it.
func (c *cluster) kill(i int) {
	c.dead = append(c.dead, c.replicas[i].holder)
	c.replicas[i] = c.newReplica()
}

// endSlices revokes the slices of dead processes, and ends them once their requests have ended, as far as the replica
// has seen that.
func (c *cluster) endSlices(r *replica) {
	for _, holder := range c.dead {
		ended, canKnow := ledger.Version(0), true
		for _, q := range c.requests {
			if q.holder == holder {
				ended, canKnow = max(ended, q.endedAt), canKnow && q.isReported
			}
		}
		c.commit(r, func(l *ledger.Ledger) {
			if l.RevokeSlice(holder); canKnow {
				l.EndSlice(holder, map[string]ledger.Version{mapsKind: ended})
			}
		})
	}
}

// step lets one thing happen.
func (c *cluster) step() {
	r := pick(c.s, "replica", c.replicas)
	switch c.s.choose("what", 12) {
	case 0, 1:
		c.review(r, fmt.Sprintf("map-%d", c.reviews), object{}, c.newObject(1, 4))
	case 2:
		if id, o, exists := c.pickObject(); exists {
			c.review(r, id, o, c.newObject(0, 5))
		}
	case 3, 4:
		if waiting := c.inFlight(); len(waiting) > 0 {
			q := pick(c.s, "request", waiting)
			c.end(q, c.s.choose("accepted", 3) > 0)
			q.isReported = c.s.choose("reported", 3) == 0
		}
	case 5:
		if id, _, exists := c.pickObject(); exists {
			c.remove(id)
		}
	case 6, 7:
		for range c.s.choose("changes", 4) {
			c.watch(r)
		}
	case 8:
		c.list(r, r.at+ledger.Version(c.s.choose("skip", int(c.now()-r.at)+1)))
	case 9:
		c.commit(r, func(l *ledger.Ledger) {
			l.SetSlice(ledger.Slice{Holder: r.holder, Amounts: c.requestedSlice(l, r)})
		})
	case 10:
		c.record(r)
	default:
		if c.kill(c.s.choose("killed", len(c.replicas))); c.s.choose("slices", 2) == 0 {
			c.endSlices(r)
		}
	}
}

// requestedSlice is a slice of up to four, and at least what the replica admitted from its slice before.
func (c *cluster) requestedSlice(l *ledger.Ledger, r *replica) map[string]ledger.Amount {
	var admitted ledger.Amount
	for _, q := range r.unrecorded {
		admitted += q.growth
	}
	amount := max(admitted, min(l.AvailableToSlice(r.holder, mapsType), ledger.Amount(c.s.choose("slice", 5))))
	if amount == 0 {
		return nil
	}
	return map[string]ledger.Amount{mapsType: amount}
}

// check compares a stored ledger with the truth.
func (c *cluster) check(l *ledger.Ledger) {
	c.t.Helper()
	c.journal.read(l)
	if err := l.CheckFlows(); err != nil {
		c.t.Fatalf("%v", err)
	}
	o := l.Observation(mapsKind)
	seen := c.objectsAt(o.Basis.Objects)
	(&pair{t: c.t}).same(fmt.Sprintf("the demand as of %+v", o.Basis), byDimensions(o.Demands), byDimensions(c.demands(seen, o.Basis)))

	existing := c.objectsAt(c.now())
	for _, q := range c.requests {
		isEffective := seen[q.id].version > q.after && o.Basis.Namespaces >= q.namespaces && o.Basis.Policies >= q.policies
		_, isPending := l.Reservation(q.key())
		_, exists := existing[q.id]
		switch {
		case isPending && isEffective:
			c.t.Fatalf("%s counts as pending and as observed", q.key())
		case !isPending && !isEffective && q.isRecorded && q.after == 0 && exists:
			c.t.Fatalf("%s counts neither as pending nor as observed", q.key())
		}
	}
	if c.isSteady {
		c.checkLimits(l, existing)
	}
}

func byDimensions(demands []ledger.Demand) map[string]ledger.Demand {
	sums := map[string]ledger.Demand{}
	for _, d := range demands {
		sums[d.Dimensions.String()] = d
	}
	return sums
}

// checkLimits requires that what exists and what may still appear is within the limits, and counts.
func (c *cluster) checkLimits(l *ledger.Ledger, existing map[string]object) {
	c.t.Helper()
	var demand, outsideEU ledger.Amount
	for _, o := range existing {
		if demand += o.demand; !o.isInEU {
			outsideEU += o.demand
		}
	}
	if demand > anyLimit+euLimit || outsideEU > anyLimit {
		c.t.Fatalf("the objects demand %d, of that %d outside of the EU", demand, outsideEU)
	}
	for _, q := range c.inFlight() {
		if q.after == existing[q.id].version { // else it cannot take effect any more
			demand += q.growth
		}
	}
	a := l.Account(mapsType)
	if counted := a.Used + a.Reserved + l.Sliced(mapsType); counted < demand {
		c.t.Fatalf("objects and requests in flight demand %d, and only %d count", demand, counted)
	}
}

// checkEnded requires that no request is pending whose end the replica has seen.
func (c *cluster) checkEnded(r *replica, l *ledger.Ledger) {
	c.t.Helper()
	for pending := range l.Reservations() {
		awaited := pending.Awaits
		o, exists := r.objects[awaited.ID]
		switch {
		case exists && o.version > awaited.After:
			if r.namespaces >= awaited.Namespaces && r.policies >= awaited.Policies {
				c.t.Fatalf("%s is pending, and its object was seen at version %d", pending.Key, o.version)
			}
		case r.deleted[awaited.ID]:
			c.t.Fatalf("%s is pending, and its object was seen to go", pending.Key)
		case !exists && awaited.After > 0 && r.at >= awaited.After:
			c.t.Fatalf("%s is pending, and its object no longer exists", pending.Key)
		}
	}
}

// settle ends everything, and requires a ledger that is exactly the sum of what exists.
func (c *cluster) settle() {
	c.t.Helper()
	for _, q := range c.inFlight() {
		c.end(q, c.s.choose("accepted", 2) == 0)
	}
	for _, q := range c.requests {
		q.isReported = true
	}
	for i := range c.replicas {
		c.kill(i)
	}
	r := c.replicas[0]
	c.list(r, c.now())
	r.policies, r.namespaces = ledger.Version(len(c.factors)-1), ledger.Version(len(c.owned)-1)
	c.endSlices(r)
	c.commit(r, func(l *ledger.Ledger) {
		if a := l.Account(mapsType); a.Reserved != 0 || l.Sliced(mapsType) != 0 {
			c.t.Fatalf("in the end, %d are pending and %d in slices", a.Reserved, l.Sliced(mapsType))
		}
	})
}

// disturb changes demand without a review, or lets a replica notice.
func (c *cluster) disturb() {
	r := pick(c.s, "notices", c.replicas)
	switch c.s.choose("unreviewed", 6) {
	case 0:
		c.factors = append(c.factors, ledger.Amount(c.s.choose("factor", 4)))
	case 1:
		c.owned = append(c.owned, c.s.choose("owned", 2) == 0)
	case 2:
		r.policies = min(r.policies+1, ledger.Version(len(c.factors)-1))
	case 3:
		r.namespaces = min(r.namespaces+1, ledger.Version(len(c.owned)-1))
	case 4:
		if id, _, exists := c.pickObject(); exists {
			c.write(id, c.newObject(0, 30))
		}
	}
}
