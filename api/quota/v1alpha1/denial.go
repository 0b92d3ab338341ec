package v1alpha1

import (
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of the causes of a create or update that Bursar denies, in its status details. They are stable: programs
// distinguish denials by them, and [DenialsOf] reads them. The text of a denial is for people, and may change.
const (
	// CauseQuotaExceeded: a consumer has less left of a resource type than the requested amount. The field of the cause is
	// the resource type. Try again after a release or a grant. Status 403.
	CauseQuotaExceeded metav1.CauseType = "QuotaExceeded"
	// CauseNothingGranted: no grant gives the consumer any of a resource type, the field of the cause. Users without the
	// right to see the figures get QuotaExceeded instead. Try again after a grant. Status 403.
	CauseNothingGranted metav1.CauseType = "NothingGranted"
	// CausePolicyNotApplicable: a policy fails for the object. The message of the cause names the policy. Try again after
	// a correction of the object or the policy. Status 403.
	CausePolicyNotApplicable metav1.CauseType = "PolicyNotApplicable"
	// CauseQuotaHeld: the request would fit without other requests in flight, which hold the quota. The field of the
	// cause is the resource type. The same request may succeed after the retryAfterSeconds of the details, once the
	// others fail or the quota counts as used. Status 429.
	CauseQuotaHeld metav1.CauseType = "QuotaHeld"
	// CauseLedgerFull: the ledger of the consumer has no room for the request. If the details have retryAfterSeconds,
	// requests in flight fill it, and the same request may succeed afterwards. Otherwise its grants and dimensions fill
	// it. Status 403 or 429.
	CauseLedgerFull metav1.CauseType = "LedgerFull"
	// CauseUndecided: no decision was possible. The same request may succeed after the retryAfterSeconds of the
	// details. Status 429 or 503.
	CauseUndecided metav1.CauseType = "Undecided"
)

// Denial is one cause of a denied create or update.
//
// +kubebuilder:object:generate=false
type Denial struct {
	// Reason is one of the types of causes.
	Reason metav1.CauseType `json:"-"`
	// Policies are the names of the ClaimCreationPolicies with the demand.
	Policies []string `json:"policies,omitempty"`
	// Consumer is the consumer without enough quota.
	Consumer *ConsumerRef `json:"consumer,omitempty"`
	// ResourceType is the lacking resource type, and Dimensions are those of the request.
	ResourceType string            `json:"resourceType,omitempty"`
	Dimensions   map[string]string `json:"dimensions,omitempty"`
	// Figures are nil if the user may not read the EffectiveResourceGrants of the consumer.
	Figures *DenialFigures `json:"figures,omitempty"`
}

// DenialFigures are the amounts of a [Denial], in base units.
//
// +kubebuilder:object:generate=false
type DenialFigures struct {
	// Requested is the requested amount; for an update, the amount in addition to the object's current amount.
	Requested int64 `json:"requested"`
	// Used is the consumer's use in all dimensions, and Limited its limit.
	Used    int64 `json:"used"`
	Limited int64 `json:"limited"`
	// Held is what requests in flight hold in addition to Used.
	Held int64 `json:"held,omitempty"`
	// Available is the amount still available to the consumer in the dimensions of the request.
	Available int64 `json:"available"`
}

// Cause returns a denial as a cause: the field is the resource type, and the message everything else as JSON.
func (d Denial) Cause() metav1.StatusCause {
	message, err := json.Marshal(d)
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	return metav1.StatusCause{Type: d.Reason, Field: d.ResourceType, Message: string(message)}
}

// DenialsOf returns the causes of a denial, or nil if the error is not a denial of Bursar.
func DenialsOf(err error) []Denial {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var denials []Denial
	for _, cause := range status.Status().Details.Causes {
		switch cause.Type {
		case CauseQuotaExceeded, CauseNothingGranted, CausePolicyNotApplicable, CauseQuotaHeld, CauseLedgerFull, CauseUndecided:
		default:
			continue
		}
		var denial Denial
		if json.Unmarshal([]byte(cause.Message), &denial) == nil {
			denial.Reason = cause.Type
			denials = append(denials, denial)
		}
	}
	return denials
}
