package ledger

// transaction is a request that is being decided. The pages count what it was admitted as taken, so
// that its charges are judged together, until it is entered or reverted.
type transaction struct {
	charges  []Charge
	accounts [ChargesMax]*account // nil where there is none of the resource type
	admitted [ChargesMax]Amount
}

// admit takes as much of every charge as can be paid and reports whether that is all.
func (tx *transaction) admit(l *Ledger, charges []Charge) bool {
	tx.charges = charges
	whole := true
	for i := range charges {
		c := &charges[i]
		if a := l.accounts[c.ResourceType]; a != nil {
			tx.accounts[i], tx.admitted[i] = a, a.admit(c.Dimensions, c.Amount)
		}
		whole = whole && tx.admitted[i] == c.Amount
	}
	return whole
}

// insist counts what admit left over as taken all the same, except in the flow, which learns of
// it when the trial is entered. It reports false if an amount would not fit.
func (tx *transaction) overdraw() bool {
	for i, a := range tx.accounts[:len(tx.charges)] {
		pending, ok := a.pending.Add(tx.charges[i].Amount - tx.admitted[i])
		if !ok {
			return false
		}
		a.pending = pending
	}
	return true
}

// fits returns Admitted if the books can hold all that is taken, or the code of what is too much.
func (tx *transaction) check() Code {
	for _, a := range tx.accounts[:len(tx.charges)] {
		if _, ok := a.total().Add(a.pending); !ok {
			return Overflow
		}
	}
	for i, a := range tx.accounts[:len(tx.charges)] {
		if !a.needBalance(tx.charges[i].Dimensions) {
			return BalancesFull
		}
	}
	return Admitted
}

// enter puts the charges into the books.
func (tx *transaction) commit() {
	for i := range tx.charges {
		c := &tx.charges[i]
		tx.accounts[i].reserve(c.Dimensions, c.Amount, tx.admitted[i])
	}
}

// revert leaves the pages as if there had been no trial.
func (tx *transaction) rollback() {
	for i, a := range tx.accounts[:len(tx.charges)] {
		if a != nil {
			a.rollback(tx.charges[i].Dimensions, tx.admitted[i])
		}
	}
}

// shortages returns what was not admitted.
func (tx *transaction) shortages() []Shortage {
	var shortages []Shortage
	for i := range tx.charges {
		c := &tx.charges[i]
		if tx.admitted[i] == c.Amount {
			continue
		}
		s := Shortage{ResourceType: c.ResourceType, Dimensions: c.Dimensions, Requested: c.Amount, Available: tx.admitted[i]}
		if a := tx.accounts[i]; a != nil {
			s.Used, s.Limit, s.Matching = a.total(), a.limit, a.matching(c.Dimensions)
		}
		shortages = append(shortages, s)
	}
	return shortages
}
