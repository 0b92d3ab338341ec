package ledger

// transaction is a request during its decision. The accounts count the admitted amounts as taken: the ledger decides
// the charges together. It ends with commit or rollback.
type transaction struct {
	charges  []Charge
	accounts [ChargesMax]*account // nil for unknown resource types
	admitted [ChargesMax]Amount
	// countedOnly are the charges without an enforced limit, and hasRest is true if one of them exceeds the admitted
	// amount.
	countedOnly [ChargesMax]bool
	hasRest     bool
}

// admit takes as much of every charge as the allowances can pay, and reports whether it took all enforced charges
// whole.
func (tx *transaction) admit(l *Ledger, charges []Charge) bool {
	tx.charges = charges
	whole := true
	for i := range charges {
		c := &charges[i]
		if a := l.accounts[c.ResourceType]; a != nil {
			tx.accounts[i], tx.admitted[i] = a, a.admit(c.Dimensions, c.Amount)
		}
		tx.countedOnly[i] = l.isCountedOnly(c.ResourceType)
		switch {
		case tx.admitted[i] == c.Amount:
		case tx.countedOnly[i]:
			tx.hasRest = true
		default:
			whole = false
		}
	}
	return whole
}

// overdraw also takes the amounts left by admit. The flow gets them only at commit. It returns false if an amount would
// not fit.
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

// check returns Admitted if the ledger can hold all taken amounts, and otherwise the code of the bound in the way.
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

// commit adds the charges to the ledger.
func (tx *transaction) commit() {
	for i := range tx.charges {
		c := &tx.charges[i]
		tx.accounts[i].reserve(c.Dimensions, c.Amount, tx.admitted[i])
	}
}

// rollback restores the accounts as they were before the transaction.
func (tx *transaction) rollback() {
	for i, a := range tx.accounts[:len(tx.charges)] {
		if a != nil {
			a.rollback(tx.charges[i].Dimensions, tx.admitted[i])
		}
	}
}

// shortages returns the enforced charges beyond their admitted amounts.
func (tx *transaction) shortages() []Shortage {
	var shortages []Shortage
	for i := range tx.charges {
		c := &tx.charges[i]
		if tx.admitted[i] == c.Amount || tx.countedOnly[i] {
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
