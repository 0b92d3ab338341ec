package ledger

// Bounds on all input of a ledger. Those on counts of dimension sets and selectors bound the work of a decision. The
// others keep a ledger storable as one object.
const (
	// BytesMax is the budget of a ledger, see [Ledger.Bytes]. Requests beyond it get LedgerFull. It is a third of the
	// largest object in etcd. The rest is for observed demand and the journal, which nobody can refuse.
	BytesMax = 512 << 10
	// GrantBytesMax is the part of the budget for grants. The rest leaves room for claims. It counts only grants: usage
	// has no influence on whether a grant is active.
	GrantBytesMax = BytesMax / 2
	// observedBytesMax bounds the ledger for observations: nobody can refuse what exists.
	observedBytesMax = 2 * BytesMax
	// KindBytesMax is the length of the longest kind of an [Observation].
	KindBytesMax = 512

	// ChargesMax is the largest number of charges of a reservation.
	ChargesMax = 20
	// KeyBytesMax is the length of the longest reservation key.
	KeyBytesMax = 1024
	// ClaimBytesMax is the length of the longest claim payload of a reservation.
	ClaimBytesMax = 64 << 10
	// ResourceTypeBytesMax is the length of the longest resource type.
	ResourceTypeBytesMax = 253

	// DimensionsMax is the largest number of pairs of a dimension set.
	DimensionsMax = 16
	// DimensionKeyBytesMax is the length of the longest dimension key: a DNS prefix of 253, a slash, and a name of 63
	// bytes.
	DimensionKeyBytesMax = 317
	// DimensionValueBytesMax is the length of the longest dimension value.
	DimensionValueBytesMax = 253
	// BalancesMax is the largest number of balances, one for each dimension set in use, of a resource type.
	BalancesMax = 1024

	// RequirementsMax is the largest number of requirements of a selector.
	RequirementsMax = 32
	// RequirementValuesMax is the largest number of values of a requirement.
	RequirementValuesMax = 64
	// SelectorsMax is the largest number of distinct selectors in all allowances of one resource type.
	SelectorsMax = 64

	// AllowancesMax is the largest number of allowances of a grant.
	AllowancesMax = 1024

	// CountMax bounds sequence numbers and claim counts from storage. Counting on from it by one cannot overflow within
	// the life of any program.
	CountMax = 1 << 62
)
