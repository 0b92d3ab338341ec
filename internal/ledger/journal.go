package ledger

import (
	"cmp"
	"iter"
	"slices"
)

// ChangeKind is the kind of change in a [Record].
type ChangeKind string

// The kinds of records, in the words of package journal.
const (
	KindAdmitted     ChangeKind = "admitted"
	KindCanceled     ChangeKind = "canceled"
	KindChanged      ChangeKind = "changed"
	KindReleased     ChangeKind = "released"
	KindRecounted    ChangeKind = "recounted"
	KindLimitChanged ChangeKind = "limitchanged"
)

const (
	// JournalBytesMax bounds the stored bytes of the records in a ledger. It is in addition to [BytesMax]: the journal
	// never denies anything.
	JournalBytesMax = 128 << 10
	// SubjectBytesMax is the length of the longest subject of a record. A record drops a longer one.
	SubjectBytesMax = 1 << 10
	// ActorBytesMax is the length of the longest actor of a record. A record cuts off a longer name.
	ActorBytesMax = 256
)

// Record records one operation on limits or on demand: the amounts that objects demand, and those that reservations
// hold.
type Record struct {
	// At is the time of the operation in milliseconds since 1970, or the earlier time of a reservation.
	At   int64
	Kind ChangeKind
	// Key is the key of the reservation, if there is one.
	Key string
	// Subject is the caller's payload: the owner of the quota. It may be empty.
	Subject string
	// Actor is the requester, if known.
	Actor string
	// Grant is, if limits changed, the namespace and name of the grant.
	Grant string
	// Changes are the changes by resource type and dimensions, without zeros. There is at least one. Those of limits are
	// without dimensions.
	Changes []Charge

	sequence int64 // of the recorded reservation
}

// Journal holds the records without a copy elsewhere, in plain form. Each change has a sequence, counted from First.
type Journal struct {
	// First is the sequence of the first change of the first record, or of the next one if there are no records.
	First int64
	// OpenedAt, if not zero, is the time in milliseconds since 1970 of the start of the journal, or of its latest start
	// after a loss of changes. Its opening state has the sequence before First.
	OpenedAt int64
	// Lost is the number of changes lost before OpenedAt.
	Lost    int64
	Records []Record
}

// journal is a Journal in memory.
type journal struct {
	Journal
	stored          int  // how many of the records are in storage
	isOpeningStored bool // the opening state is in storage
	bytes           int  // an upper bound on the stored bytes of the records
}

// StartJournal makes the ledger keep records, beginning with its present state. The sequence of this state is opening.
// If the ledger keeps records already, nothing changes.
func (l *Ledger) StartJournal(opening int64) {
	if l.journal == nil {
		l.journal = &journal{Journal: Journal{First: opening + 1, OpenedAt: max(1, l.now)}}
	}
}

// StopJournal drops all records, and makes the ledger keep none.
func (l *Ledger) StopJournal() { l.journal = nil }

// BeginBatch sets the time of the following records, in milliseconds since 1970.
func (l *Ledger) BeginBatch(now int64) { l.now, l.removedBy = now, nil }

// MarkStored informs the ledger of a successful write of everything in it.
func (l *Ledger) MarkStored() {
	if l.journal != nil {
		l.journal.stored, l.journal.isOpeningStored = len(l.journal.Records), true
	}
}

// BoundJournal drops the stored records if all records take more than [JournalBytesMax]: the journal then begins again
// before the records not stored yet. If these alone take more, it drops them, too. Call it before you store the ledger.
func (l *Ledger) BoundJournal() {
	j := l.journal
	if j == nil || j.bytes <= JournalBytesMax {
		return
	}
	dropped := j.stored
	rest := 0
	for i := range j.Records[dropped:] {
		rest += j.Records[dropped+i].size()
	}
	if rest > JournalBytesMax {
		dropped, rest = len(j.Records), 0
	}
	lost := changesOf(j.Records[:dropped])
	// Leave one sequence for the opening state.
	j.Journal = Journal{First: j.First + lost + 1, OpenedAt: max(1, l.now), Lost: j.Lost + lost, Records: slices.Clone(j.Records[dropped:])}
	j.stored, j.isOpeningStored, j.bytes = 0, false, rest
}

// TrimJournal drops the records up to a sequence, once they are in storage elsewhere. It reports whether there were
// any.
func (l *Ledger) TrimJournal(through int64) bool {
	j := l.journal
	if j == nil || through < j.First-1 {
		return false
	}
	hasChanged := j.OpenedAt != 0
	j.OpenedAt, j.Lost = 0, 0
	for len(j.Records) > 0 && j.First+int64(len(j.Records[0].Changes)) <= through+1 {
		j.First += int64(len(j.Records[0].Changes))
		j.bytes -= j.Records[0].size()
		j.Records = j.Records[1:]
		j.stored = max(0, j.stored-1)
		hasChanged = true
	}
	return hasChanged
}

// PendingChanges returns how many changes the ledger keeps, and whether its opening state is among them.
func (l *Ledger) PendingChanges() (changes int64, hasOpening bool) {
	if l.journal == nil {
		return 0, false
	}
	return l.journal.changes(), l.journal.OpenedAt != 0
}

// changes returns the number of changes in all records.
func (j *journal) changes() int64 { return changesOf(j.Records) }

func changesOf(records []Record) (count int64) {
	for i := range records {
		count += int64(len(records[i].Changes))
	}
	return count
}

// record adds a record of the changes other than zero, unless there is none.
func (l *Ledger) record(r Record, changes iter.Seq[Charge]) {
	if l.journal == nil {
		return
	}
	for change := range changes {
		if change.Amount != 0 {
			r.Changes = append(r.Changes, change)
		}
	}
	if len(r.Changes) == 0 {
		return
	}
	r.At = cmp.Or(r.At, l.now)
	if len(r.Subject) > SubjectBytesMax {
		r.Subject = ""
	}
	r.Actor = r.Actor[:min(len(r.Actor), ActorBytesMax)]
	l.journal.Records = append(l.journal.Records, r)
	l.journal.bytes += r.size()
}

// pauseJournal makes the ledger keep no records until the call of resume.
func (l *Ledger) pauseJournal() (resume func()) {
	paused := l.journal
	l.journal = nil
	return func() { l.journal = paused }
}

// recordOf returns a record of a reservation without changes.
func recordOf(kind ChangeKind, r *Reservation) Record {
	return Record{Kind: kind, Key: r.Key, Subject: cmp.Or(r.Subject, r.Claim), Actor: r.Actor, sequence: r.Sequence}
}

// recordAdmitted records the charges of a new reservation.
func (l *Ledger) recordAdmitted(r *Reservation) {
	record := recordOf(KindAdmitted, r)
	if reserved := r.ReservedAt * 1000; reserved > 0 && reserved < l.now-999 {
		record.At = reserved
	}
	l.record(record, slices.Values(r.Charges))
}

// recordCanceled records the end of a reservation. A reservation newer than the stored ledger leaves no trace: nobody
// has seen it.
func (l *Ledger) recordCanceled(r *Reservation) {
	if l.journal == nil {
		return
	}
	records := l.journal.Records
	for i := len(records) - 1; i >= l.journal.stored; i-- {
		added := &records[i]
		if added.sequence == r.Sequence && added.Key == r.Key && slices.Equal(added.Changes, r.Charges) {
			l.journal.bytes -= added.size()
			if l.log.isOpen() {
				records = slices.Clone(records) // a discarded trial has them again
			}
			l.journal.Records = slices.Delete(records, i, i+1)
			return
		}
	}
	l.record(recordOf(KindCanceled, r), negated(r.Charges))
}

// recordGrants records how the amounts of each grant and resource type changed.
func (l *Ledger) recordGrants(before, after []Grant) {
	if l.journal == nil {
		return
	}
	type total struct {
		before, after []Charge
		actor         string
	}
	totals := map[string]*total{}
	of := func(g *Grant) *total {
		name := g.fullName()
		if totals[name] == nil {
			totals[name] = &total{}
		}
		return totals[name]
	}
	for i := range before {
		t := of(&before[i])
		t.before, t.actor = append(t.before, before[i].amounts()...), l.removedBy[before[i].UID]
	}
	for i := range after {
		t := of(&after[i])
		t.after, t.actor = append(t.after, after[i].amounts()...), after[i].ChangedBy
	}
	for _, name := range sortedKeys(totals) {
		t := totals[name]
		l.record(Record{Kind: KindLimitChanged, Grant: name, Actor: t.actor}, differences(t.after, t.before))
	}
}

// fullName returns the namespace and name of the grant.
func (g *Grant) fullName() string { return g.Namespace + "/" + g.Name }

// amounts returns the amounts of the allowances without their selectors.
func (g *Grant) amounts() []Charge {
	amounts := make([]Charge, 0, len(g.Allowances))
	for i := range g.Allowances {
		amounts = append(amounts, Charge{ResourceType: g.Allowances[i].ResourceType, Amount: g.Allowances[i].Amount})
	}
	return amounts
}

// negated yields charges with the opposite amounts.
func negated(charges []Charge) iter.Seq[Charge] {
	return func(yield func(Charge) bool) {
		for _, c := range charges {
			if c.Amount = -c.Amount; !yield(c) {
				return
			}
		}
	}
}

// differences yields the sums of after minus those of before, by resource type and dimensions.
func differences(after, before []Charge) iter.Seq[Charge] {
	all := make([]Charge, 0, len(after)+len(before))
	places := make(map[Charge]int, cap(all))
	add := func(c Charge, sign Amount) {
		key := Charge{ResourceType: c.ResourceType, Dimensions: c.Dimensions}
		i, isKnown := places[key]
		if !isKnown {
			i = len(all)
			places[key], all = i, append(all, key)
		}
		all[i].Amount += sign * c.Amount
	}
	for i := range before {
		add(before[i], -1)
	}
	for i := range after {
		add(after[i], 1)
	}
	return slices.Values(all)
}

// Bounds on the stored bytes besides texts, as in size.go.
const (
	journalRecordBytes = 128
	journalChangeBytes = 76
)

// size bounds from above the stored bytes of the record.
func (r *Record) size() int {
	size := journalRecordBytes + jsonLen(r.Key) + jsonLen(r.Subject) + jsonLen(r.Actor) + jsonLen(r.Grant)
	for i := range r.Changes {
		size += journalChangeBytes + jsonLen(r.Changes[i].ResourceType) + jsonLen(r.Changes[i].Dimensions.canonical)
	}
	return size
}
