package ledger

// Trial collects changes of a ledger that can be undone together, for example to answer a dry run. Trials nest: one
// that begins within another ends before it. What belongs to a whole batch is not part of a trial: its time, the types,
// and the bounds of the journal.
type Trial struct {
	ledger *Ledger
	// depth counts the open trials, with this one, and start is the length of the undo log before it.
	depth, start int
	// Most operations change these, so a trial copies them instead of logging each change.
	sequence int64
	bytes    bytes
	journal  *journal
	records  journal
}

// undoLog holds one undo function for each change since the first open trial began, oldest first.
type undoLog struct {
	depth int // of the open trials
	undos []func()
}

// Begin begins a trial. End it with [Trial.Keep] or [Trial.Discard].
func (l *Ledger) Begin() *Trial {
	l.log.depth++
	t := &Trial{
		ledger: l, depth: l.log.depth, start: len(l.log.undos),
		sequence: l.sequence, bytes: l.bytes, journal: l.journal,
	}
	if l.journal != nil {
		t.records = *l.journal
	}
	return t
}

// Keep ends the trial. Its changes stay, unless a trial around it is discarded.
func (t *Trial) Keep() {
	log := &t.ledger.log
	t.checkOrder()
	if log.depth--; log.depth == 0 {
		clear(log.undos) // for the garbage collector
		log.undos = log.undos[:0]
	}
}

// Discard ends the trial and undoes all of its changes: the ledger is as before [Ledger.Begin].
func (t *Trial) Discard() {
	l := t.ledger
	t.checkOrder()
	undos := l.log.undos[t.start:]
	l.log.depth = 0 // an undo is not logged
	for i := len(undos) - 1; i >= 0; i-- {
		undos[i]()
	}
	clear(undos)
	l.log.depth, l.log.undos = t.depth-1, l.log.undos[:t.start]

	l.sequence, l.bytes, l.journal = t.sequence, t.bytes, t.journal
	if l.journal != nil {
		*l.journal = t.records
	}
}

func (t *Trial) checkOrder() {
	if t.depth != t.ledger.log.depth {
		panic("a trial ends twice, or before one that began within it")
	}
}

func (u *undoLog) isOpen() bool { return u.depth > 0 }

// add adds what undoes a change. It is for open trials only.
func (u *undoLog) add(undo func()) { u.undos = append(u.undos, undo) }

// put sets an entry of a map of the ledger.
func put[K comparable, V any](u *undoLog, m map[K]V, key K, value V) {
	if u.isOpen() {
		u.add(restoring(m, key))
	}
	m[key] = value
}

// drop deletes an entry of a map of the ledger.
func drop[K comparable, V any](u *undoLog, m map[K]V, key K) {
	if u.isOpen() {
		u.add(restoring(m, key))
	}
	delete(m, key)
}

// restoring returns a function that gives a map its present entry again.
func restoring[K comparable, V any](m map[K]V, key K) func() {
	before, isThere := m[key]
	return func() {
		if delete(m, key); isThere {
			m[key] = before
		}
	}
}
