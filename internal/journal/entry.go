package journal

import (
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Kind is the kind of the recorded change.
type Kind string

const (
	// Admitted means that Bursar admitted or charged an object or a claim: its amounts are in use from then on.
	Admitted Kind = "admitted"
	// Canceled means that the create of an admitted object failed: its amounts are free again.
	Canceled Kind = "canceled"
	// Changed means that the amounts of an existing claim changed.
	Changed Kind = "changed"
	// Released means that the object or claim is gone: its amounts are free again.
	Released Kind = "released"
	// Recounted means that existing objects demand something else than before, and that Bursar did not see each change: a
	// policy has changed, or no process ran.
	Recounted Kind = "recounted"
	// LimitChanged means that somebody added, changed or removed a grant.
	LimitChanged Kind = "limitchanged"
	// Opened begins the journal of a consumer, or continues it after a gap: later entries count from its balances.
	Opened Kind = "opened"
)

// Entry is one change of the limit or the use of one resource type of one consumer, or the initial state for later
// entries. Amounts are in base units.
type Entry struct {
	// Consumer is the consumer of the changed ledger.
	Consumer quotav1alpha1.ConsumerRef
	// Sequence is 1 more than the sequence of the consumer's previous entry. After an Opened entry the step may be
	// larger. It identifies the entry within the consumer.
	Sequence int64
	// Time is when the change took effect. Entries of one consumer are in the order of their sequence. A replica may
	// record an admission some seconds later than a release that came after it.
	Time time.Time
	Kind Kind

	// ResourceType and Dimensions are the resource type and the dimension set of the change. They are empty in an Opened
	// entry.
	ResourceType string
	Dimensions   map[string]string
	// Change is the change of the limit in a LimitChanged entry, and of the use in others. It may be negative.
	Change int64
	// Used and Limit are the totals of the resource type after the change, over all dimensions. Used includes the
	// amounts reserved for objects under creation.
	Used, Limit int64

	// Object is the paying object, if there is one. A claim without an object has none.
	Object *Object
	// Claim is the ResourceClaim, as namespace/name, where it is known.
	Claim string
	// Policy is the name of the ClaimCreationPolicy, if one demanded the quota.
	Policy string
	// Grant is the ResourceGrant of a LimitChanged entry, as namespace/name.
	Grant string
	// Actor is the authenticated user whose request made the change. It is empty if there was no such request, and after
	// the deletion of an object.
	Actor string

	// Opening is the initial state for later entries. Only an Opened entry has one.
	Opening *Opening
}

// Object identifies an object.
type Object struct {
	APIGroup  string `json:"apiGroup,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
}

// Opening is the state of a consumer at one moment.
type Opening struct {
	// Lost is how many entries before it nobody has: the sink stood still for too long, or there was no journal.
	Lost int64 `json:"lost,omitempty"`
	// Limits are the positive amounts of grants, by resource type and grant.
	Limits []Limit `json:"limits,omitempty"`
	// Balances are the positive amounts in use, by resource type and dimensions.
	Balances []Balance `json:"balances,omitempty"`
}

// Limit is the amount of a resource type in a grant.
type Limit struct {
	ResourceType string `json:"resourceType"`
	Grant        string `json:"grant"`
	Amount       int64  `json:"amount"`
}

// Balance is the amount in use of a resource type for one dimension set.
type Balance struct {
	ResourceType string            `json:"resourceType"`
	Dimensions   map[string]string `json:"dimensions,omitempty"`
	Amount       int64             `json:"amount"`
}
