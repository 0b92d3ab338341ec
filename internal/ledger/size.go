package ledger

import "unicode/utf8"

// What is stored besides texts, at most: with the longest numbers, and the comma that follows.
const (
	ledgerBytes      = 2 << 10 // metadata and the consumer
	grantBytes       = 88
	allowanceBytes   = 76
	usageBytes       = 88
	reservationBytes = 128
	chargeBytes      = 72
	recordBytes      = 3
)

// bytes is what the parts of a ledger take in storage.
type bytes struct{ grants, balances, reservations, released int }

// Bytes bounds from above how many bytes the ledger takes when it is stored as JSON. A row counts
// as soon as something is reserved in it, so that settling takes no more.
func (l *Ledger) Bytes() int {
	return ledgerBytes + l.bytes.grants + l.bytes.balances + l.bytes.reservations + l.bytes.released
}

// BytesNeeded returns by how much a reservation that is not in the books would make them larger, in bytes.
func (l *Ledger) BytesNeeded(r *Reservation) int {
	size := r.Size()
	for i := range r.Charges {
		c := &r.Charges[i]
		a := l.accounts[c.ResourceType]
		switch {
		case a == nil:
			size += usageBytes + jsonLen(c.ResourceType) + jsonLen(c.Dimensions.canonical)
		case a.balances[c.Dimensions] == nil:
			size += a.balanceSize(c.Dimensions)
		}
	}
	return size
}

// checkRoom returns LedgerFull if the ledger would become larger, and too large, by some bytes and
// the rows of a trial.
func (l *Ledger) checkRoom(tx *transaction, size, bytesMax int) Code {
	for i, a := range tx.accounts[:len(tx.charges)] {
		if d := tx.charges[i].Dimensions; a.balances[d] == nil {
			size += a.balanceSize(d)
		}
	}
	if size > 0 && l.Bytes()+size > bytesMax {
		return LedgerFull
	}
	return Admitted
}

// Size bounds from above how many bytes the reservation takes when it is stored as JSON in a JSON
// string.
func (r *Reservation) Size() int {
	// The claim is JSON already.
	size := reservationBytes + nestedLen(r.Key) + escapedLen(r.Claim, len(`\"`), len(`\\u0000`))
	for _, charges := range [][]Charge{r.Charges, r.Replaces} {
		for i := range charges {
			size += chargeBytes + nestedLen(charges[i].ResourceType) + nestedLen(charges[i].Dimensions.canonical)
		}
	}
	return size
}

func grantsSize(grants []Grant) int {
	size := 0
	for i := range grants {
		size += grants[i].size()
	}
	return size
}

func (g *Grant) size() int {
	size := grantBytes + jsonLen(g.UID) + jsonLen(g.Namespace) + jsonLen(g.Name)
	for i := range g.Allowances {
		// A canonical selector is as long as what is stored for it.
		size += allowanceBytes + jsonLen(g.Allowances[i].ResourceType) + len(g.Allowances[i].Selector.canonical)
	}
	return size
}

func recordSize(claimUID string) int { return recordBytes + jsonLen(claimUID) }

// jsonLen bounds the length of text in a JSON string, and of canonical dimensions in a JSON object: a
// NUL counts as much as the quotes, the colon and the comma that stand in its place.
func jsonLen(text string) int { return escapedLen(text, len(`\"`), len(`\u0000`)) }

// nestedLen is jsonLen for JSON that is itself in a JSON string.
func nestedLen(text string) int { return escapedLen(text, len(`\\\"`), len(`\\u0000`)) }

// escapedLen bounds the length of text in which quotes and backslashes take quote bytes, and what
// else encoding/json escapes takes other bytes.
func escapedLen(text string, quote, other int) int {
	length := 0
	for _, r := range text {
		switch {
		case r == '"', r == '\\':
			length += quote
		case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029', r == utf8.RuneError:
			length += other
		default:
			length += utf8.RuneLen(r)
		}
	}
	return length
}
