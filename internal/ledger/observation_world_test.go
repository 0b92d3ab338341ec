package ledger_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bursar/bursar/internal/ledger"
)

// The objects of a cluster are of these kinds, and all demand one type. Each demands it without dimensions or in the
// EU.
const (
	mapsKind    = "configmaps"
	secretsKind = "secrets"
	mapsType    = "maps"
)

var inEU = dimensionsOf("region", "eu")

// cluster is a simulated API server, the stored ledger of the consumer that pays for its objects, and replicas that
// decide and observe. It tells the truth by the history of all changes.
type cluster struct {
	t     reporter
	s     source
	kinds []*objectKind
	// factors of demand by the version of the policies, and owned by that of the namespaces, from 1 on: whether the
	// consumer pays.
	factors []ledger.Amount
	owned   []bool
	stored  ledger.Snapshot
	// limits are those of the stored ledger. unpaidMax is what they could not pay of the demand when one of them was
	// lowered, or what is left of that.
	limits    limits
	unpaidMax ledger.Amount
	// isSteady is false once something changed demand without a review.
	isSteady bool
	// countedTwice is true once an object counted beside its request: what that adds, and takes away, is a recount.
	countedTwice bool
	// isSettling is true once every write gets its answer.
	isSettling bool
	// journal follows the records of the ledger.
	journal  *reader
	replicas []*replica
	requests []*request
	reviews  int
	dead     []string // holders of slices
}

// limits are what an administrator grants: for all objects, and for more in the EU.
type limits struct{ all, eu ledger.Amount }

// grant gives the limits.
func (n limits) grant() ledger.Grant {
	return ledger.Grant{UID: "g", Name: "g", Allowances: []ledger.Allowance{
		{ResourceType: mapsType, Amount: n.all},
		{ResourceType: mapsType, Selector: selectorOf(in("region", "eu")), Amount: n.eu},
	}}
}

// objectKind has all objects of a kind, as the API server has them. Versions of two kinds do not compare.
type objectKind struct {
	name    string
	history []change // that of version v is at v-1
	// isDefined is false while the kind has no definition. definedAt is its version at the latest definition.
	isDefined bool
	definedAt ledger.Version
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

// request is a request to create or update an object, under review or admitted.
type request struct {
	number     int
	isAdmitted bool
	// isOutdated is true if the object had changed when the ledger decided: the API server will refuse the request.
	isOutdated bool
	kind       *objectKind
	id         string
	after      ledger.Version
	object     object
	growth     ledger.Amount
	// namespaces and policies are the versions of the review.
	namespaces, policies ledger.Version
	// holder admitted it from its slice, and isRecorded is true once the ledger has it.
	holder     string
	isRecorded bool
	// endedAt is the version at which the request had ended, well or not. It is 0 while it is in flight. isReported is
	// true once all replicas can know, and before that reportedTo is the only one if any.
	endedAt    ledger.Version
	isReported bool
	reportedTo *replica
}

func newCluster(t reporter, s source) *cluster {
	c := &cluster{
		t: t, s: s, factors: []ledger.Amount{1}, owned: []bool{true, true},
		kinds:  []*objectKind{{name: mapsKind, isDefined: true}, {name: secretsKind, isDefined: true}},
		limits: limits{all: 16, eu: 6}, isSteady: true, journal: &reader{t: t},
	}
	l := ledger.New()
	if _, err := l.SetGrant(c.limits.grant()); err != nil {
		t.Fatalf("%v", err)
	}
	l.StartJournal(1)
	c.stored = l.Snapshot()
	for range 3 {
		c.replicas = append(c.replicas, c.newReplica())
	}
	return c
}

func (k *objectKind) now() ledger.Version { return ledger.Version(len(k.history)) }

// objectsAt replays the history.
func (k *objectKind) objectsAt(version ledger.Version) map[string]object {
	objects := map[string]object{}
	for _, change := range k.history[:version] {
		if delete(objects, change.id); !change.isDeleted {
			objects[change.id] = change.object
		}
	}
	return objects
}

// write makes the next version of an object.
func (k *objectKind) write(id string, o object) {
	o.version = k.now() + 1
	k.history = append(k.history, change{object: o, id: id})
}

func (k *objectKind) remove(id string) {
	k.history = append(k.history, change{id: id, isDeleted: true})
}

// pass makes a version without a change of the objects of the consumer.
func (k *objectKind) pass() { k.remove("an object of another consumer") }

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

func (q *request) key() string { return fmt.Sprintf("%s@%d/%d", q.id, q.after, q.number) }

// reservation is what a request holds until its effect is observed.
func (q *request) reservation() ledger.Reservation {
	return ledger.Reservation{
		Key:     q.key(),
		Charges: []ledger.Charge{{ResourceType: mapsType, Dimensions: q.object.dimensions(), Amount: q.growth}},
		Awaits: &ledger.Awaited{
			Kind: q.kind.name, ID: q.id, After: q.after, Namespaces: q.namespaces, Policies: q.policies,
		},
	}
}

func without(requests []*request, q *request) []*request {
	return slices.DeleteFunc(slices.Clone(requests), func(other *request) bool { return other == q })
}

func growthOf(requests []*request) (sum ledger.Amount) {
	for _, q := range requests {
		sum += q.growth
	}
	return sum
}

// end ends a request in flight. The API server accepts it if its object is as reviewed.
func (c *cluster) end(q *request, isAccepted bool) {
	o, exists := q.kind.objectsAt(q.kind.now())[q.id]
	if isAccepted && (q.after == 0 || exists && o.version == q.after) {
		q.kind.write(q.id, q.object)
	}
	q.kind.pass() // so that endedAt is not 0
	q.endedAt = q.kind.now()
	switch c.s.choose("reported", 3) {
	case 1:
		q.reportedTo = pick(c.s, "to", c.replicas)
	case 2:
		q.isReported = true
	}
}

// report lets the longest time of all requests pass that have ended.
func (c *cluster) report() {
	for _, q := range c.requests {
		q.isReported = q.endedAt > 0
	}
}

func (c *cluster) inFlight() []*request {
	return slices.DeleteFunc(slices.Clone(c.requests), func(q *request) bool { return !q.isAdmitted || q.endedAt != 0 })
}

func (c *cluster) pickKind() *objectKind {
	return pick(c.s, "kind", slices.DeleteFunc(slices.Clone(c.kinds), func(k *objectKind) bool { return !k.isDefined }))
}

func (c *cluster) pickObject() (k *objectKind, id string, o object, exists bool) {
	k = c.pickKind()
	objects := k.objectsAt(k.now())
	if len(objects) == 0 {
		return k, "", object{}, false
	}
	id = pick(c.s, "object", slices.Sorted(maps.Keys(objects)))
	return k, id, objects[id], true
}

func (c *cluster) newObject(least, most int) object {
	return object{demand: ledger.Amount(least + c.s.choose("demand", most-least+1)), isInEU: c.s.choose("region", 3) == 0}
}

// defineOrNot deletes the definition of the second kind, and with it all its objects, or defines the kind again. A
// request in flight fails then.
func (c *cluster) defineOrNot() {
	k := c.kinds[1]
	if k.isDefined = !k.isDefined; k.isDefined {
		k.definedAt = k.now()
		return
	}
	for _, id := range slices.Sorted(maps.Keys(k.objectsAt(k.now()))) {
		k.remove(id)
	}
	for _, q := range c.inFlight() {
		if q.kind == k {
			c.end(q, false)
		}
	}
}

// step lets one thing happen.
func (c *cluster) step() {
	r := pick(c.s, "replica", c.replicas)
	switch c.s.choose("what", 20) {
	case 0, 1:
		k := c.pickKind()
		for range 1 + c.s.choose("more", 2) {
			c.review(r, k, fmt.Sprintf("%s-%d", k.name, c.reviews), object{}, c.newObject(1, 3))
		}
	case 2, 3:
		c.record(r)
	case 4, 5:
		c.requestSlice(r, 1+ledger.Amount(c.s.choose("slice", 6)))
	case 6:
		if k, id, o, exists := c.pickObject(); exists {
			c.review(r, k, id, o, c.newObject(0, 4))
		}
	case 7:
		for range 1 + c.s.choose("removed", 3) {
			if k, id, _, exists := c.pickObject(); exists {
				k.remove(id)
			}
		}
	case 8:
		i := pick(c.s, "inventory", r.inventories)
		i.list(i.at + ledger.Version(c.s.choose("skip", int(i.kind.now()-i.at)+1)))
	case 9:
		c.kill(c.s.choose("killed", len(c.replicas)))
	case 10, 11, 12:
		i := pick(c.s, "inventory", r.inventories)
		for range c.s.choose("changes", 4) {
			i.watch()
		}
	case 13, 14:
		for range 1 + c.s.choose("ended", 3) {
			if waiting := c.inFlight(); len(waiting) > 0 {
				c.end(pick(c.s, "request", waiting), c.s.choose("accepted", 3) > 0)
			}
		}
	case 15:
		c.report()
	case 16:
		c.endSlices(r)
	case 17:
		c.defineOrNot()
	case 18:
		c.noticeDefinitions(r)
	default:
		c.setLimits(r, limits{all: ledger.Amount(c.s.choose("limit", 25)), eu: ledger.Amount(c.s.choose("in the EU", 10))})
	}
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
		if k, id, _, exists := c.pickObject(); exists {
			k.write(id, c.newObject(0, 30))
		}
	}
}

// settle ends everything, and requires a ledger that is exactly the sum of what exists.
func (c *cluster) settle() {
	c.t.Helper()
	c.isSettling = true
	for _, q := range c.inFlight() {
		c.end(q, c.s.choose("accepted", 2) == 0)
	}
	c.report()
	for i := range c.replicas {
		c.kill(i)
	}

	r := c.replicas[0]
	for _, i := range r.inventories {
		i.list(i.kind.now())
	}
	c.noticeDefinitions(r)
	r.policies, r.namespaces = ledger.Version(len(c.factors)-1), ledger.Version(len(c.owned)-1)
	c.endSlices(r)
	c.commit(r, func(*ledger.Ledger) {})
	c.checkSettled()
}
