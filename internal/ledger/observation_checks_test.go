package ledger_test

import (
	"fmt"

	"github.com/bursar/bursar/internal/ledger"
)

// check compares a stored ledger with the truth.
func (c *cluster) check(l *ledger.Ledger) {
	c.t.Helper()
	c.journal.read(l)
	if err := l.CheckFlows(); err != nil {
		c.t.Fatalf("%v", err)
	}
	for _, k := range c.kinds {
		o := l.Observation(k.name)
		want := c.demands(k.objectsAt(o.Basis.Objects), o.Basis)
		(&pair{t: c.t}).same(fmt.Sprintf("the demand of %s as of %+v", k.name, o.Basis), byDimensions(o.Demands), byDimensions(want))
	}
	c.checkRequests(l)
	if c.isSteady {
		c.checkLimits(l)
	}
}

func byDimensions(demands []ledger.Demand) map[string]ledger.Demand {
	sums := map[string]ledger.Demand{}
	for _, d := range demands {
		sums[d.Dimensions.String()] = d
	}
	return sums
}

// checkRequests requires that each admitted request counts once: as pending, or as observed, or in the slice of its
// holder.
func (c *cluster) checkRequests(l *ledger.Ledger) {
	c.t.Helper()
	seen, existing := map[*objectKind]map[string]object{}, map[*objectKind]map[string]object{}
	for _, k := range c.kinds {
		seen[k], existing[k] = k.objectsAt(l.Observation(k.name).Basis.Objects), k.objectsAt(k.now())
	}

	unrecorded := map[string]ledger.Amount{} // by holder of a slice
	for _, q := range c.requests {
		basis := l.Observation(q.kind.name).Basis
		isEffective := seen[q.kind][q.id].version > q.after && basis.Namespaces >= q.namespaces && basis.Policies >= q.policies
		_, isPending := l.Reservation(q.key())
		_, exists := existing[q.kind][q.id]
		switch {
		case isPending && isEffective && !q.isOutdated:
			c.t.Fatalf("%s counts as pending and as observed", q.key())
		case isPending || isEffective:
		case q.isRecorded && q.after == 0 && exists:
			c.t.Fatalf("%s counts neither as pending nor as observed", q.key())
		case q.holder != "" && !q.isRecorded && (exists || q.endedAt == 0):
			unrecorded[q.holder] += q.growth
		}
	}
	for holder, amount := range unrecorded {
		if s, _ := l.Slice(holder); s.Amounts[mapsType] < amount {
			c.t.Fatalf("the slice of %s has %d, and its holder admitted %d besides what is recorded", holder, s.Amounts[mapsType], amount)
		}
	}
}

// regional is demand outside of the EU and in it.
type regional struct{ outside, eu ledger.Amount }

func (d *regional) add(isInEU bool, amount ledger.Amount) {
	if isInEU {
		d.eu += amount
	} else {
		d.outside += amount
	}
}

// unpaid is how much of a demand the limits cannot pay.
func (n limits) unpaid(d regional) ledger.Amount {
	return max(0, d.outside-n.all, d.outside+d.eu-n.all-n.eu)
}

// demand is what exists and what may still appear.
func (c *cluster) demand() (sum regional) {
	existing := map[*objectKind]map[string]object{}
	for _, k := range c.kinds {
		existing[k] = k.objectsAt(k.now())
		for _, o := range existing[k] {
			sum.add(o.isInEU, o.demand)
		}
	}
	for _, q := range c.inFlight() {
		if q.after == existing[q.kind][q.id].version { // else it cannot take effect any more
			sum.add(q.object.isInEU, q.growth)
		}
	}
	return sum
}

// checkLimits requires that all demand counts, and that it is within the limits. If a limit was lowered, some of the
// demand may exceed it. That part never grows, and has no more than what counts beyond the limits.
func (c *cluster) checkLimits(l *ledger.Ledger) {
	c.t.Helper()
	demand := c.demand()
	counted := regional{outside: l.Sliced(mapsType)}
	for _, b := range l.Balances(mapsType) {
		counted.add(!b.Dimensions.IsZero(), b.Used+b.Reserved)
	}
	if counted.outside < demand.outside || counted.eu < demand.eu {
		c.t.Fatalf("objects and requests in flight demand %+v, and only %+v count", demand, counted)
	}

	before := c.limits
	for g := range l.Grants() {
		c.limits = limits{all: g.Allowances[0].Amount, eu: g.Allowances[1].Amount}
	}
	if c.limits.all < before.all || c.limits.eu < before.eu {
		c.unpaidMax = c.limits.unpaid(counted)
	} else {
		c.unpaidMax = min(c.unpaidMax, c.limits.unpaid(counted))
	}
	if unpaid := c.limits.unpaid(demand); unpaid > c.unpaidMax {
		c.t.Fatalf("objects and requests in flight demand %+v: that is %d beyond %+v, at most %d were so before",
			demand, unpaid, c.limits, c.unpaidMax)
	}
}

// checkAdmitted requires that an admitted request fits: demand does not exceed the limits by more than before.
func (c *cluster) checkAdmitted(q *request) {
	c.t.Helper()
	if !c.isSteady {
		return
	}
	before := c.demand()
	after := before
	after.add(q.object.isInEU, q.growth)
	if c.limits.unpaid(after) > c.limits.unpaid(before) {
		c.t.Fatalf("%s of %d was admitted beside a demand of %+v within %+v", q.key(), q.growth, before, c.limits)
	}
}

// checkEnded requires that no request is pending whose end the replica has seen.
func (c *cluster) checkEnded(o observer, l *ledger.Ledger) {
	c.t.Helper()
	if o.isUndefined || l.Observation(o.kind.name).Basis != o.observation().Basis {
		return // it knows no versions, or is behind in some respect
	}
	for pending := range l.Reservations() {
		awaited := pending.Awaits
		if awaited.Kind != o.kind.name {
			continue
		}
		seen, exists := o.objects[awaited.ID]
		switch {
		case exists && seen.version > awaited.After:
			if o.namespaces >= awaited.Namespaces && o.policies >= awaited.Policies {
				c.t.Fatalf("%s is pending, and its object was seen at version %d", pending.Key, seen.version)
			}
		case o.deleted[awaited.ID]:
			c.t.Fatalf("%s is pending, and its object was seen to go", pending.Key)
		case !exists && awaited.After > 0 && o.at >= awaited.After:
			c.t.Fatalf("%s is pending, and its object no longer exists", pending.Key)
		}
	}
}

// checkSettled requires that nothing is pending or in slices, and that the observations are complete.
func (c *cluster) checkSettled() {
	c.t.Helper()
	l, err := ledger.Restore(c.stored)
	if err != nil {
		c.t.Fatalf("restore: %v", err)
	}
	if a := l.Account(mapsType); a.Reserved != 0 || l.Sliced(mapsType) != 0 {
		c.t.Fatalf("in the end, %d are pending and %d in slices", a.Reserved, l.Sliced(mapsType))
	}
	for _, k := range c.kinds {
		want := ledger.Basis{
			Objects: k.now(), Namespaces: ledger.Version(len(c.owned) - 1), Policies: ledger.Version(len(c.factors) - 1),
		}
		if !k.isDefined {
			want = ledger.Basis{}
		}
		if got := l.Observation(k.name).Basis; got != want {
			c.t.Fatalf("in the end, %s are observed as of %+v, want %+v", k.name, got, want)
		}
	}
}
