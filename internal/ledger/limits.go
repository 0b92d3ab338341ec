package ledger

// Bounds on everything that a ledger takes in. Those on counts of dimension sets and selectors
// bound the work of a decision; the others keep a ledger storable as one object.
const (
	// BytesMax is the budget of a ledger, see [Ledger.Bytes]: what would take more is refused as
	// LedgerFull. It is a third of what etcd stores in one object. The rest is for what is never
	// refused: records of released claims and amendments that reduce what a claim holds.
	BytesMax = 512 << 10
	// GrantBytesMax is how much of the budget grants may take, so that they leave room for
	// claims. It counts grants alone: whether one is active does not depend on what is in use.
	GrantBytesMax = BytesMax / 2
	// reductionBytesMax bounds the ledger for amendments that hold nothing in addition. Once they
	// end, the ledger is smaller than before.
	reductionBytesMax = BytesMax + 128<<10

	// ChargesMax is how many charges a reservation, what it replaces, or a release may have.
	ChargesMax = 20
	// KeyBytesMax is the length of the longest reservation key.
	KeyBytesMax = 1024
	// ClaimBytesMax is the length of the longest claim payload of a reservation.
	ClaimBytesMax = 64 << 10
	// ResourceTypeBytesMax is the length of the longest resource type.
	ResourceTypeBytesMax = 253

	// DimensionsMax is how many pairs a dimension set may have.
	DimensionsMax = 16
	// DimensionKeyBytesMax is the length of the longest dimension key: a DNS prefix of 253, a
	// slash, and a name of 63 bytes.
	DimensionKeyBytesMax = 317
	// DimensionValueBytesMax is the length of the longest dimension value.
	DimensionValueBytesMax = 253
	// BalancesMax is how many rows, one for each dimension set in use, a resource type may have.
	BalancesMax = 1024

	// RequirementsMax is how many requirements a selector may have.
	RequirementsMax = 32
	// RequirementValuesMax is how many values a requirement may list.
	RequirementValuesMax = 64
	// SelectorsMax is how many distinct selectors the allowances of one resource type may have
	// over all grants.
	SelectorsMax = 64

	// AllowancesMax is how many allowances a grant may have.
	AllowancesMax = 1024

	// CountMax bounds sequence numbers and claim counts that are read from outside. Counting on
	// from it by one cannot overflow within the life of any program.
	CountMax = 1 << 62
)
