package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConsumerLedgerFormat is the format of ledgers stored by this version of Bursar. It increases with every incompatible
// change: one where an earlier version would misread a ledger, or lose part of it on a write. In every format
// consumerRef and format keep their place, and all fields their types, because Bursar decodes lists of ledgers without
// regard to the format.
const ConsumerLedgerFormat = 4

// ConsumerLedger is the ledger of a consumer. It has everything for a decision in one object, so a decision over any
// number of resource types is one compare-and-swap. Only Bursar writes it. Changing it by hand makes decisions wrong
// for some seconds.
//
// Bursar rewrites the object for every batch of decisions, so the API server validates no schema in it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=consumerledgers,scope=Cluster,shortName=cledger
// +kubebuilder:printcolumn:name="Consumer Kind",type=string,JSONPath=`.spec.consumerRef.kind`
// +kubebuilder:printcolumn:name="Consumer Name",type=string,JSONPath=`.spec.consumerRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ConsumerLedger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the ledger. It is internal to Bursar, and its form may change with any release.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec ConsumerLedgerSpec `json:"spec"`
}

// ConsumerLedgerSpec is the ledger of a consumer. All amounts are in base units of their resource type.
type ConsumerLedgerSpec struct {
	// consumerRef is the consumer. It never changes.
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// format is the number of the stored format. Absent, it is 1. A version of Bursar neither reads nor writes a ledger in
	// a format higher than its own, because it would drop unknown fields.
	// +optional
	Format int64 `json:"format,omitempty"`

	// sequence is the number of all reservations so far, and so the sequence of the last one. It never decreases.
	Sequence int64 `json:"sequence"`

	// grants are the consumer's active grants. Their sums are the limits.
	// +optional
	Grants []LedgerGrant `json:"grants,omitempty"`

	// observations are what existing objects demand, by kind. They are in use.
	// +optional
	Observations []LedgerObservation `json:"observations,omitempty"`

	// reservations are charges without an observation that decides them. They count in addition to the observations.
	// +optional
	Reservations []LedgerReservation `json:"reservations,omitempty"`

	// slices are amounts held by replicas ahead of demand, to admit creates without a write. They are not in use.
	// +optional
	Slices []LedgerSlice `json:"slices,omitempty"`

	// journal has the changes of limits and use on their way to the journal. It is absent without a journal.
	// +optional
	Journal *LedgerJournal `json:"journal,omitempty"`
}

// LedgerJournal has changes on their way to the journal. They come with the ledger, and leave it once the journal has
// them.
type LedgerJournal struct {
	// first is the sequence of the first change of the first record, or of the next change if there are no records.
	First int64 `json:"first"`

	// openedAt is the time in milliseconds since 1970 at which the journal of this consumer began, or began again after a
	// loss of changes. It is absent once the journal has the state of the ledger at that time.
	// +optional
	OpenedAt int64 `json:"openedAt,omitempty"`

	// lost is the number of changes lost before openedAt.
	// +optional
	Lost int64 `json:"lost,omitempty"`

	// records are the changes, in their order.
	// +optional
	Records []LedgerRecord `json:"records,omitempty"`
}

// LedgerRecord records one operation with changes of limits or use.
type LedgerRecord struct {
	// at is the time of the operation in milliseconds since 1970.
	At int64 `json:"at"`

	// kind is the kind of operation, such as admitted.
	Kind string `json:"kind"`

	// key is the key of the reservation. It is absent without one.
	// +optional
	Key string `json:"key,omitempty"`

	// subject is the charged object or claim, as JSON.
	// +optional
	Subject string `json:"subject,omitempty"`

	// actor is the user of the request behind the change, if known.
	// +optional
	Actor string `json:"actor,omitempty"`

	// grant is the namespace and name of the grant behind a change of limits.
	// +optional
	Grant string `json:"grant,omitempty"`

	// changes are the changes by resource type and dimensions.
	Changes []LedgerCharge `json:"changes"`
}

// LedgerSlice is quota held by one replica ahead of demand. It covers the replica's admissions without a written
// reservation.
type LedgerSlice struct {
	// holder identifies the process with the slice.
	Holder string `json:"holder"`

	// writtenAt is the time of the holder's latest write, in seconds since 1970.
	WrittenAt int64 `json:"writtenAt"`

	// revoked is true once another replica found no further writes of the holder.
	// +optional
	Revoked bool `json:"revoked,omitempty"`

	// amounts are the amounts by resource type.
	Amounts map[string]int64 `json:"amounts"`
}

// LedgerGrant is an active grant.
type LedgerGrant struct {
	// uid is the grant's UID.
	UID string `json:"uid"`

	// namespace is the grant's namespace.
	Namespace string `json:"namespace"`

	// name is the grant's name.
	Name string `json:"name"`

	// generation is the metadata.generation of the grant with these allowances.
	Generation int64 `json:"generation"`

	// allowances are the grant's allowances within their periods.
	// +optional
	Allowances []LedgerAllowance `json:"allowances,omitempty"`
}

// LedgerAllowance is an allowance of a grant.
type LedgerAllowance struct {
	// type is the resource type.
	ResourceType string `json:"type"`

	// amount is the sum of the allowance's buckets.
	Amount int64 `json:"amount"`

	// selector restricts the allowance to requests with matching dimensions; absent, it matches all.
	// +optional
	DimensionSelector *metav1.LabelSelector `json:"selector,omitempty"`
}

// LedgerObservation is what the objects of one kind demand of the consumer, as of some versions.
type LedgerObservation struct {
	// kind identifies the kind of the objects.
	Kind string `json:"kind"`

	// objectsVersion is the version of the kind that the demand rests on: it has all changes up to this one, and none
	// later. namespacesVersion and policiesVersion are the same for namespaces and for policies.
	ObjectsVersion int64 `json:"objectsVersion"`
	// +optional
	NamespacesVersion int64 `json:"namespacesVersion,omitempty"`
	// +optional
	PoliciesVersion int64 `json:"policiesVersion,omitempty"`

	// demands are the sums, one entry for each resource type and set of dimensions. There are none if no object counts
	// any more.
	// +optional
	Demands []LedgerDemand `json:"demands,omitempty"`
}

// LedgerDemand is the demand of some objects for one resource type with one set of dimensions.
type LedgerDemand struct {
	// type is the resource type.
	ResourceType string `json:"type"`

	// dimensions are the dimensions of the demand.
	// +optional
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// amount is the sum of what the objects demand. It may be 0.
	Amount int64 `json:"amount"`

	// objects is the number of objects in the sum.
	Objects int64 `json:"objects"`
}

// LedgerReservation is a charge in flight.
type LedgerReservation struct {
	// key identifies the charged object, so that it gets one charge: policy and object, or a directly created claim.
	Key string `json:"key"`

	// sequence is the number of the reservation. No other reservation gets the same number.
	Sequence int64 `json:"sequence"`

	// reservedAt is the time of the reservation, in seconds since 1970, by the clock of its replica.
	ReservedAt int64 `json:"reservedAt"`

	// charges are the reserved charges, each of another resource type.
	// +optional
	Charges []LedgerCharge `json:"charges,omitempty"`

	// awaits is the change of an object, or of a claim, that ends the reservation once it is observed.
	// +optional
	Awaits *LedgerAwaited `json:"awaits,omitempty"`

	// claim is the claim to create, as JSON, so that any replica can create it, or the name of a claim that existed first.
	// +optional
	Claim string `json:"claim,omitempty"`
}

// LedgerAwaited is the change of an object by an admitted request.
type LedgerAwaited struct {
	// kind is the kind of the object, as in observations.
	Kind string `json:"kind"`

	// id identifies the object among those of its kind for ever.
	ID string `json:"id"`

	// after is the version of the object under review. It is absent if the request creates the object.
	// +optional
	After int64 `json:"after,omitempty"`

	// namespaces and policies are the versions that the charges rest on.
	// +optional
	Namespaces int64 `json:"namespaces,omitempty"`
	// +optional
	Policies int64 `json:"policies,omitempty"`
}

// LedgerCharge is an amount of one resource type with one set of dimensions.
type LedgerCharge struct {
	// type is the resource type.
	ResourceType string `json:"type"`

	// dimensions are the dimensions of the request.
	// +optional
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// amount is the charged amount.
	Amount int64 `json:"amount"`
}

// ConsumerLedgerList is a list of ledgers.
//
// +kubebuilder:object:root=true
type ConsumerLedgerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ConsumerLedger `json:"items"`
}
