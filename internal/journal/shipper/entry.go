package shipper

import (
	"strings"
	"time"

	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// entryOf returns the entry of the journal.
func entryOf(t *taken) journal.Entry {
	if t.opening != nil {
		return journal.Entry{
			Consumer: t.consumer, Sequence: t.opening.Sequence, Time: time.UnixMilli(t.opening.At).UTC(), Kind: journal.Opened,
			Opening: openingOf(t.opening),
		}
	}
	change, r := &t.entry.Change, t.entry.Record
	e := journal.Entry{
		Consumer: t.consumer, Sequence: t.entry.Sequence, Time: time.UnixMilli(r.At).UTC(), Kind: journal.Kind(r.Kind),
		ResourceType: change.ResourceType, Dimensions: change.Dimensions.Map(), Change: int64(change.Amount),
		Used: int64(t.entry.Used), Limit: int64(t.entry.Limit),
		Actor: r.Actor, Grant: grantName(r.Grant),
	}
	policy, uid := ledgerstore.SplitObjectKey(r.Key)
	subject := claims.DecodeSubject(r.Subject)
	e.Policy, e.Claim = policy, subject.Claim
	if ref := subject.Object; ref.Kind != "" || uid != "" {
		e.Object = &journal.Object{APIGroup: ref.APIGroup, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: uid}
	}
	return e
}

// grantName returns the namespace and name of a grant without the slash of an empty namespace.
func grantName(stored string) string { return strings.TrimPrefix(stored, "/") }

func openingOf(opening *ledger.Opening) *journal.Opening {
	o := &journal.Opening{Lost: opening.Lost}
	for _, l := range opening.Limits {
		o.Limits = append(o.Limits, journal.Limit{ResourceType: l.ResourceType, Grant: grantName(l.Grant), Amount: int64(l.Amount)})
	}
	for _, b := range opening.Balances {
		o.Balances = append(o.Balances, journal.Balance{ResourceType: b.ResourceType, Dimensions: b.Dimensions.Map(), Amount: int64(b.Amount)})
	}
	return o
}
