package history

import "github.com/bursar/bursar/internal/journal"

// replayed is a consumer in a replay.
type replayed struct {
	isSelected bool
	sequence   int64 // of the latest entry
	accounts   map[string]*trial
	// denied are the payers with less quota in the replay than in the journal.
	denied map[payer]*excess
	// names are the payers of denied creates by the names of their objects, see [replayed.renamed].
	names map[payer]payer
	// pending are the entries of one payer, kind and time: one admission.
	payer   payer
	pending []journal.Entry
}

// trial is an account in a replay.
type trial struct {
	Outcome
	// actual is the use in the journal, and used is the use in the replay.
	actual, used int64
	// isUnknown holds after a gap, until the next entry reports the use.
	isUnknown bool
	// wanted and change are sums over an admission: wanted of the changes in the replay, and change of those in the
	// journal.
	wanted, change int64
}

// excess is the quota that a payer has in the journal, but not in the replay, by resource type. It is negative for
// quota that the payer gave back in a denied change.
type excess struct {
	// isCreate marks a denied create. It never uses anything.
	isCreate bool
	amounts  map[string]int64
}

// begin begins an account with its present use.
func (c *replayed) begin(a account, limit, used int64) {
	c.accounts[a.resourceType] = &trial{
		Outcome: Outcome{ConsumerRef: a.consumer, ResourceType: a.resourceType, Limit: limit, PeakUsed: used, account: a},
		actual:  used, used: used,
	}
}

// decide decides the pending admission, or follows the pending change.
func (c *replayed) decide() {
	if len(c.pending) == 0 {
		return
	}
	defer func() { c.pending = c.pending[:0] }()
	kind := c.pending[0].Kind
	before := c.denied[c.payer]
	if before != nil && kind == journal.Admitted && c.payer.uid == "" {
		delete(c.denied, c.payer) // another object of the same name
		before = nil
	}
	if before == nil {
		before = c.renamed(kind)
	}
	trials := c.sums(before)
	asks := kind == journal.Admitted || kind == journal.Changed
	for _, t := range trials {
		t.follow(asks)
	}
	if before != nil && before.isCreate {
		return
	}
	if asks && c.denies(trials) {
		c.deny(trials, before, kind == journal.Admitted)
		return
	}
	c.admit(trials, before)
}

// renamed returns the denied create of an object with another UID in later entries than in its admission. A create
// repeated after a failure takes over the reservation of the first attempt, and only that has an entry. A further
// admission under the name is one of another object.
func (c *replayed) renamed(kind journal.Kind) *excess {
	name, isNamed := nameOfPayer(&c.pending[0])
	if !isNamed {
		return nil
	}
	earlier, isDenied := c.names[name]
	if !isDenied {
		return nil
	}
	delete(c.names, name)
	before := c.denied[earlier]
	if kind == journal.Admitted || before == nil {
		return nil
	}
	delete(c.denied, earlier)
	c.denied[c.payer] = before
	return before
}

// nameOfPayer identifies the object of an entry by its name, if it has a UID, too.
func nameOfPayer(e *journal.Entry) (name payer, isNamed bool) {
	if e.Object == nil || e.Object.UID == "" {
		return payer{}, false
	}
	object := *e.Object
	object.UID = ""
	return payerOf(&journal.Entry{Object: &object, Policy: e.Policy}), true
}

// follow applies the change in the journal. An admission needs a limit as large as the use after it.
func (t *trial) follow(asks bool) {
	t.actual = less(sum(t.actual, t.change), 0)
	t.PeakUsed = max(t.PeakUsed, t.actual)
	if asks && t.change > 0 {
		t.Needed = max(t.Needed, t.actual)
	}
}

// admit gives a payer the wanted amounts.
func (c *replayed) admit(trials []*trial, before *excess) {
	for _, t := range trials {
		t.used = less(sum(t.used, t.wanted), 0)
		if before != nil {
			delete(before.amounts, t.ResourceType)
		}
	}
	if before != nil && len(before.amounts) == 0 {
		delete(c.denied, c.payer)
	}
}

// sums adds up the pending entries by resource type. The wanted change leads from the payer's use in the replay to its
// use in the journal after the entries.
func (c *replayed) sums(before *excess) []*trial {
	var trials []*trial
	for i := range c.pending {
		t := c.accounts[c.pending[i].ResourceType]
		isListed := false
		for _, listed := range trials {
			isListed = isListed || listed == t
		}
		if !isListed {
			t.wanted, t.change = 0, 0
			if before != nil {
				t.wanted = before.amounts[t.ResourceType]
			}
			trials = append(trials, t)
		}
		t.change = sum(t.change, c.pending[i].Change)
		t.wanted = sum(t.wanted, c.pending[i].Change)
	}
	return trials
}

// denies counts an admission, and reports whether a limit denies it.
func (c *replayed) denies(trials []*trial) bool {
	isDenied := false
	for _, t := range trials {
		if t.wanted <= 0 {
			continue
		}
		t.Creates++
		if c.payer == (payer{}) {
			t.Unnamed++
		}
		if t.wanted <= sum(t.Limit, -t.used) {
			continue
		}
		isDenied = true
		t.Denied++
		if t.First == nil {
			e := &c.pending[0]
			t.First = &Denial{Time: e.Time, Object: e.Object, Claim: e.Claim, Actor: e.Actor, Requested: t.wanted, Used: t.used}
		}
	}
	return isDenied
}

// deny keeps the payer's use in the replay, and notes the wanted amounts as its excess.
func (c *replayed) deny(trials []*trial, before *excess, isCreate bool) {
	if before == nil {
		before = &excess{amounts: map[string]int64{}}
		c.denied[c.payer] = before
	}
	if name, isNamed := nameOfPayer(&c.pending[0]); isNamed && isCreate {
		c.names[name] = c.payer
	}
	before.isCreate = isCreate
	for _, t := range trials {
		before.amounts[t.ResourceType] = t.wanted
	}
}
