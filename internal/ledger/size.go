package ledger

import "unicode/utf8"

// Upper bounds on the stored bytes besides texts: with the longest numbers, and the comma after them.
const (
	ledgerBytes      = 2 << 10 // metadata and the consumer
	grantBytes       = 88
	allowanceBytes   = 76
	demandBytes      = 88
	reservationBytes = 128
	chargeBytes      = 72
)

// bytes are the stored bytes of the parts of a ledger.
type bytes struct{ grants, balances, observations, reservations, slices int }

// Bytes bounds from above the size of the ledger as JSON. A reservation has room for the demand that it will become,
// unless objects demand something with these dimensions already.
func (l *Ledger) Bytes() int {
	return ledgerBytes + l.bytes.grants + l.bytes.balances + l.bytes.observations + l.bytes.reservations + l.bytes.slices
}

// BytesNeeded returns the number of bytes added to the ledger by a new reservation.
func (l *Ledger) BytesNeeded(r *Reservation) int {
	size := r.Size()
	for i := range r.Charges {
		c := &r.Charges[i]
		a := l.accounts[c.ResourceType]
		switch {
		case a == nil:
			size += demandBytes + jsonLen(c.ResourceType) + jsonLen(c.Dimensions.canonical)
		case !a.hasBalance(c.Dimensions):
			size += a.demandSize(c.Dimensions)
		}
	}
	return size
}

// checkRoom returns LedgerFull if the given bytes and the new balances of a transaction would make the ledger larger,
// and larger than bytesMax.
func (l *Ledger) checkRoom(tx *transaction, size, bytesMax int) Code {
	for i, a := range tx.accounts[:len(tx.charges)] {
		if d := tx.charges[i].Dimensions; !a.hasBalance(d) {
			size += a.demandSize(d)
		}
	}
	if size > 0 && l.Bytes()+size > bytesMax {
		return LedgerFull
	}
	return Admitted
}

// Size bounds from above the size of the reservation as JSON within a JSON string.
func (r *Reservation) Size() int {
	// The claim already is JSON.
	size := reservationBytes + r.Awaits.size() + nestedLen(r.Key) + escapedLen(r.Claim, len(`\"`), len(`\\u0000`))
	for i := range r.Charges {
		size += chargeBytes + nestedLen(r.Charges[i].ResourceType) + nestedLen(r.Charges[i].Dimensions.canonical)
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
		// A canonical selector is as long as its stored form.
		size += allowanceBytes + jsonLen(g.Allowances[i].ResourceType) + len(g.Allowances[i].Selector.canonical)
	}
	return size
}

// jsonLen bounds the length of text in a JSON string, and of canonical dimensions in a JSON object: there, quotes, a
// colon and a comma replace each NUL and are no longer than its escape.
func jsonLen(text string) int { return escapedLen(text, len(`\"`), len(`\u0000`)) }

// nestedLen is jsonLen for JSON within a JSON string.
func nestedLen(text string) int { return escapedLen(text, len(`\\\"`), len(`\\u0000`)) }

// escapedLen bounds the length of text with quotes and backslashes of quote bytes each. All other characters escaped by
// encoding/json take other bytes.
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
