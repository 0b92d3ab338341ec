package ledger

// trial is a request that is being decided. The pages count what it was admitted as taken, so
// that its charges are judged together, until it is entered or reverted.
type trial struct {
	charges  []Charge
	pages    [ChargesMax]*account // nil where there is none of the resource type
	admitted [ChargesMax]Amount
}

// admit takes as much of every charge as can be paid and reports whether that is all.
func (t *trial) admit(l *Ledger, charges []Charge) bool {
	t.charges = charges
	whole := true
	for i := range charges {
		c := &charges[i]
		if p := l.pages[c.ResourceType]; p != nil {
			t.pages[i], t.admitted[i] = p, p.admit(c.Dimensions, c.Amount)
		}
		whole = whole && t.admitted[i] == c.Amount
	}
	return whole
}

// insist counts what admit left over as taken all the same, except in the flow, which learns of
// it when the trial is entered. It reports false if an amount would not fit.
func (t *trial) insist() bool {
	for i, p := range t.pages[:len(t.charges)] {
		pending, ok := p.pending.Add(t.charges[i].Amount - t.admitted[i])
		if !ok {
			return false
		}
		p.pending = pending
	}
	return true
}

// fits returns Admitted if the books can hold all that is taken, or the code of what is too much.
func (t *trial) fits() Code {
	for _, p := range t.pages[:len(t.charges)] {
		if _, ok := p.total().Add(p.pending); !ok {
			return Overflow
		}
	}
	for i, p := range t.pages[:len(t.charges)] {
		if !p.needBalance(t.charges[i].Dimensions) {
			return RowsFull
		}
	}
	return Admitted
}

// enter puts the charges into the books.
func (t *trial) enter() {
	for i := range t.charges {
		c := &t.charges[i]
		t.pages[i].reserve(c.Dimensions, c.Amount, t.admitted[i])
	}
}

// revert leaves the pages as if there had been no trial.
func (t *trial) revert() {
	for i, p := range t.pages[:len(t.charges)] {
		if p != nil {
			p.revert(t.charges[i].Dimensions, t.admitted[i])
		}
	}
}

// shortages returns what was not admitted.
func (t *trial) shortages() []Shortage {
	var shortages []Shortage
	for i := range t.charges {
		c := &t.charges[i]
		if t.admitted[i] == c.Amount {
			continue
		}
		s := Shortage{ResourceType: c.ResourceType, Dimensions: c.Dimensions, Requested: c.Amount, Available: t.admitted[i]}
		if p := t.pages[i]; p != nil {
			s.Used, s.Limit, s.Matching = p.total(), p.limit, p.matching(c.Dimensions)
		}
		shortages = append(shortages, s)
	}
	return shortages
}
