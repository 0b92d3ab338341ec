package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// HistoryLimitMax is the highest limit of a [QuotaHistory], in entries.
	HistoryLimitMax = 1000

	// HistoryLimitDefault is the limit of a [QuotaHistory] without one, in entries.
	HistoryLimitDefault = 500

	// HistoryContinueMax is the length of the longest continue token of a [QuotaHistory], in bytes.
	HistoryContinueMax = 1024
)

// Types of the causes of a denied [QuotaHistory]. They are stable.
const (
	// CauseNoJournal: Bursar has no readable journal here. It keeps none, or writes it to standard output. Status 404.
	CauseNoJournal metav1.CauseType = "NoJournal"

	// CauseNoEntries: the journal has no entry of the consumer. Check its name and its API group. Status 404.
	CauseNoEntries metav1.CauseType = "NoEntries"
)

// QuotaHistory asks for the journal of a consumer: all changes of its limits and use, with time and user. Bursar
// answers in the status of the created object. A history is never stored: create it with dryRun=All, such as by kubectl
// create --dry-run=server -o yaml. Bursar rejects any other create.
//
// With the right to get the ConsumerLedger of the consumer, users see everything. With the right to get the consumer's
// EffectiveResourceGrants, they see the figures without actors, and objects and claims only in namespaces with the
// right to get ResourceClaims. Bursar denies all others. The namespace of a QuotaHistory has no meaning, so a role in
// any namespace is enough to ask.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=quotahistories,scope=Namespaced,shortName=qhistory,categories=bursar
type QuotaHistory struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the question.
	Spec QuotaHistorySpec `json:"spec"`

	// status is the answer. Bursar overwrites the value of the client.
	// +optional
	Status *QuotaHistoryStatus `json:"status,omitempty"`
}

// QuotaHistorySpec selects entries of the journal.
// +kubebuilder:validation:XValidation:rule="!has(self.since) || !has(self.until) || self.since < self.until",message="since must be earlier than until"
type QuotaHistorySpec struct {
	// consumerRef is the consumer.
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// resourceType selects the entries of one resource type, and Opened entries, in at most 253 characters. Absent (the
	// default), the answer has all types.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType,omitempty"`

	// since selects entries from this time on. Absent (the default), the answer starts with the first entry.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// until selects entries before this time. Absent (the default), it is now.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// limit is the largest number of entries in the answer, 1 to 1000. Default: 500. The answer may have fewer, see
	// status.continue.
	// +optional
	// +kubebuilder:default=500
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Limit int32 `json:"limit,omitempty"`

	// continue is the status.continue of the page before, with the rest of the spec unchanged. Absent (the default), the
	// answer is the first page.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Continue string `json:"continue,omitempty"`
}

// QuotaHistoryStatus is a page of the journal.
type QuotaHistoryStatus struct {
	// entries are in the order of their sequence.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Entries []JournalEntry `json:"entries,omitempty"`

	// continue is the spec.continue for the next page. It is absent on the last page. Its form may change with any
	// release.
	// +optional
	Continue string `json:"continue,omitempty"`
}

// JournalEntryKind is the event behind an entry.
// +kubebuilder:validation:Enum=Admitted;Canceled;Changed;Released;Recounted;LimitChanged;Opened
type JournalEntryKind string

const (
	// JournalEntryAdmitted means that Bursar admitted or charged an object or a claim.
	JournalEntryAdmitted JournalEntryKind = "Admitted"

	// JournalEntryCanceled means that the create of an admitted object failed.
	JournalEntryCanceled JournalEntryKind = "Canceled"

	// JournalEntryChanged means that the amounts of an existing claim changed.
	JournalEntryChanged JournalEntryKind = "Changed"

	// JournalEntryReleased means that the object or claim is gone.
	JournalEntryReleased JournalEntryKind = "Released"

	// JournalEntryRecounted means that existing objects demand something else than before, and Bursar did not see each
	// change: a policy has changed, or no process ran.
	JournalEntryRecounted JournalEntryKind = "Recounted"

	// JournalEntryLimitChanged means that an active grant appeared, changed or ended.
	JournalEntryLimitChanged JournalEntryKind = "LimitChanged"

	// JournalEntryOpened begins the journal of a consumer, or continues it after a gap.
	JournalEntryOpened JournalEntryKind = "Opened"
)

// JournalEntry is one change of the limit or the use of one resource type, or the state before later entries. Amounts
// are in base units.
type JournalEntry struct {
	// time is the time at which the change took effect. The entry of an admission may come some seconds after the entry of
	// a later release.
	Time metav1.MicroTime `json:"time"`

	// sequence identifies the entry within the consumer. It is 1 higher than in the entry before. After an Opened entry,
	// the step may be larger.
	Sequence int64 `json:"sequence"`

	// kind is Admitted, Canceled, Changed, Released, Recounted, LimitChanged or Opened.
	Kind JournalEntryKind `json:"kind"`

	// resourceType is the resource type of the change. It is absent in an Opened entry.
	// +optional
	ResourceType string `json:"resourceType,omitempty"`

	// dimensions are the dimensions of the changed balance. They are absent in an Opened entry.
	// +optional
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// change is the change of the limit in a LimitChanged entry, and of the use in others. It may be negative.
	Change int64 `json:"change"`

	// used is the use of the resource type after the change, over all dimensions. It includes reservations for objects
	// under creation.
	Used int64 `json:"used"`

	// limit is the limit of the resource type after the change, over all dimensions.
	Limit int64 `json:"limit"`

	// object is the charged object. It is absent without one.
	// +optional
	Object *JournalObject `json:"object,omitempty"`

	// claim is the ResourceClaim, as namespace/name. It is absent if Bursar does not know it.
	// +optional
	Claim string `json:"claim,omitempty"`

	// policy is the name of the ClaimCreationPolicy with the demand. It is absent without one.
	// +optional
	Policy string `json:"policy,omitempty"`

	// grant is the ResourceGrant of a LimitChanged entry, as namespace/name.
	// +optional
	Grant string `json:"grant,omitempty"`

	// actor is the authenticated user of the request behind the change. It is absent without such a request, and after the
	// end of an object.
	// +optional
	Actor string `json:"actor,omitempty"`

	// opening is the state before later entries. Only an Opened entry has one.
	// +optional
	Opening *JournalOpening `json:"opening,omitempty"`
}

// JournalObject identifies an object.
type JournalObject struct {
	// apiGroup is the API group of the object. It is absent for the core group.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// kind is the kind of the object.
	// +optional
	Kind string `json:"kind,omitempty"`

	// namespace is the namespace of the object. It is absent for a cluster-scoped object.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	// +optional
	Name string `json:"name,omitempty"`

	// uid is the metadata.uid of the object.
	// +optional
	UID string `json:"uid,omitempty"`
}

// JournalOpening is the state of a consumer at one moment.
type JournalOpening struct {
	// lost is the number of lost entries before this one.
	// +optional
	Lost int64 `json:"lost,omitempty"`

	// limits are the positive amounts of grants, by resource type and grant.
	// +optional
	// +listType=atomic
	Limits []JournalLimit `json:"limits,omitempty"`

	// balances are the positive amounts in use, by resource type and dimensions.
	// +optional
	// +listType=atomic
	Balances []JournalBalance `json:"balances,omitempty"`
}

// JournalLimit is the amount of a resource type in a grant.
type JournalLimit struct {
	// resourceType is the resource type.
	ResourceType string `json:"resourceType"`

	// grant is the ResourceGrant, as namespace/name.
	Grant string `json:"grant"`

	// amount is in base units.
	Amount int64 `json:"amount"`
}

// JournalBalance is the amount in use of a resource type for one dimension set.
type JournalBalance struct {
	// resourceType is the resource type of the balance.
	ResourceType string `json:"resourceType"`

	// dimensions are the dimensions of the balance. They are absent for a balance without dimensions.
	// +optional
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// amount is in base units.
	Amount int64 `json:"amount"`
}

// QuotaHistoryList is a list of histories. The API server stores none, so its lists are empty.
//
// +kubebuilder:object:root=true
type QuotaHistoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []QuotaHistory `json:"items"`
}
