package journal

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// apiKinds are the kinds as the API has them.
var apiKinds = map[Kind]quotav1alpha1.JournalEntryKind{
	Admitted: quotav1alpha1.JournalEntryAdmitted, Canceled: quotav1alpha1.JournalEntryCanceled, Changed: quotav1alpha1.JournalEntryChanged,
	Released: quotav1alpha1.JournalEntryReleased, Recounted: quotav1alpha1.JournalEntryRecounted,
	LimitChanged: quotav1alpha1.JournalEntryLimitChanged, Opened: quotav1alpha1.JournalEntryOpened,
}

// ToAPI returns the entry in the form of a QuotaHistory, with times in microseconds. It shares maps with the entry.
// It fails for an entry of an unknown kind.
func (e *Entry) ToAPI() (*quotav1alpha1.JournalEntry, error) {
	kind, known := apiKinds[e.Kind]
	if !known {
		return nil, fmt.Errorf("entry %s has the kind %q, which this version of Bursar does not know", e.ID(), e.Kind)
	}
	entry := &quotav1alpha1.JournalEntry{
		Time: metav1.NewMicroTime(e.Time.UTC()), Sequence: e.Sequence, Kind: kind, ResourceType: e.ResourceType, Dimensions: e.Dimensions,
		Change: e.Change, Used: e.Used, Limit: e.Limit, Claim: e.Claim, Policy: e.Policy, Grant: e.Grant, Actor: e.Actor,
	}
	if o := e.Object; o != nil {
		entry.Object = new(quotav1alpha1.JournalObject(*o))
	}
	if o := e.Opening; o != nil {
		entry.Opening = &quotav1alpha1.JournalOpening{Lost: o.Lost}
		for _, l := range o.Limits {
			entry.Opening.Limits = append(entry.Opening.Limits, quotav1alpha1.JournalLimit(l))
		}
		for _, b := range o.Balances {
			entry.Opening.Balances = append(entry.Opening.Balances, quotav1alpha1.JournalBalance(b))
		}
	}
	return entry, nil
}

// FromAPI returns the entry of a consumer from a QuotaHistory. It shares maps with it. It fails for an entry of an
// unknown kind.
func FromAPI(consumer quotav1alpha1.ConsumerRef, entry *quotav1alpha1.JournalEntry) (Entry, error) {
	e := Entry{
		Consumer: consumer, Time: entry.Time.UTC(), Sequence: entry.Sequence, ResourceType: entry.ResourceType, Dimensions: entry.Dimensions,
		Change: entry.Change, Used: entry.Used, Limit: entry.Limit, Claim: entry.Claim, Policy: entry.Policy, Grant: entry.Grant, Actor: entry.Actor,
	}

	for kind, of := range apiKinds {
		if of == entry.Kind {
			e.Kind = kind
		}
	}
	if e.Kind == "" {
		return e, fmt.Errorf("entry %s has the kind %q, which this version of bursar does not know: use that of the server", e.ID(), entry.Kind)
	}

	if o := entry.Object; o != nil {
		e.Object = new(Object(*o))
	}
	if o := entry.Opening; o != nil {
		e.Opening = &Opening{Lost: o.Lost}
		for _, l := range o.Limits {
			e.Opening.Limits = append(e.Opening.Limits, Limit(l))
		}
		for _, b := range o.Balances {
			e.Opening.Balances = append(e.Opening.Balances, Balance(b))
		}
	}
	return e, nil
}
