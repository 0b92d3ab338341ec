package claims

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Intent is the part of a policy's claim stored in its reservation until the object has appeared. The rest is in the
// reservation itself. Every batch of decisions rewrites the ledger, so an intent is short.
type Intent struct {
	// Claim is the name of the claim. It is empty for a policy that counts objects.
	Claim types.NamespacedName
	// Kind and Object identify the object of the claim.
	Kind   schema.GroupVersionKind
	Object types.NamespacedName
	// Labels and Annotations are those of the policy's template.
	Labels, Annotations map[string]string
}

// storedIntent is an intent as JSON. It writes names as namespace/name.
type storedIntent struct {
	Claim       string            `json:"claim,omitempty"`
	APIVersion  string            `json:"apiVersion"`
	Kind        string            `json:"kind"`
	Object      string            `json:"object"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Encode returns the intent as JSON.
func (i Intent) Encode() string {
	encoded, err := json.Marshal(storedIntent{
		Claim: i.claimName(), APIVersion: i.Kind.GroupVersion().String(), Kind: i.Kind.Kind, Object: i.Object.String(),
		Labels: i.Labels, Annotations: i.Annotations,
	})
	if err != nil {
		panic(err) // strings always encode
	}
	return string(encoded)
}

// claimName returns the namespace and name of the claim, or "" if there is none.
func (i Intent) claimName() string {
	if i.Claim.Name == "" {
		return ""
	}
	return i.Claim.String()
}

// IntentOf decodes the result of Encode.
func IntentOf(encoded string) (Intent, error) {
	var stored storedIntent
	if err := json.Unmarshal([]byte(encoded), &stored); err != nil {
		return Intent{}, fmt.Errorf("decode the intent of a claim: %w", err)
	}
	version, err := schema.ParseGroupVersion(stored.APIVersion)
	if err != nil {
		return Intent{}, fmt.Errorf("decode the intent of a claim: %w", err)
	}
	return Intent{
		Claim: nameOf(stored.Claim), Kind: version.WithKind(stored.Kind), Object: nameOf(stored.Object),
		Labels: stored.Labels, Annotations: stored.Annotations,
	}, nil
}

func nameOf(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, string(types.Separator))
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// FromReservation makes the claim of a policy's reservation, with the standard marks. The object owns the claim if the
// namespaces allow it.
func FromReservation(reservation ledgerstore.InFlight) (*quotav1alpha1.ResourceClaim, error) {
	intent, err := IntentOf(reservation.Claim)
	if err != nil {
		return nil, fmt.Errorf("reservation %s: %w", reservation.Key, err)
	}
	policy, uid := ledgerstore.SplitObjectKey(reservation.Key)
	claim := &quotav1alpha1.ResourceClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: intent.Claim.Namespace, Name: intent.Claim.Name,
			Labels: maps.Clone(intent.Labels), Annotations: maps.Clone(intent.Annotations),
		},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: reservation.Consumer,
			ResourceRef: quotav1alpha1.UnversionedObjectReference{
				APIGroup: intent.Kind.Group, Kind: intent.Kind.Kind, Name: intent.Object.Name, Namespace: intent.Object.Namespace,
			},
			Requests: RequestsOf(reservation.Charges),
		},
	}
	from := origin{
		policy: policy, kind: intent.Kind, object: intent.Object, uid: types.UID(uid), at: time.Unix(reservation.ReservedAt, 0),
	}
	setMarks(claim, from)
	setOwner(claim, from)
	claim.Finalizers = []string{quotav1alpha1.FinalizerQuotaRelease}
	setConsumerLabels(claim)
	return claim, nil
}

// RequestsOf is the inverse of Charges.
func RequestsOf(charges []ledger.Charge) []quotav1alpha1.ResourceRequest {
	requests := make([]quotav1alpha1.ResourceRequest, 0, len(charges))
	for _, charge := range charges {
		requests = append(requests, quotav1alpha1.ResourceRequest{
			ResourceType: charge.ResourceType, Amount: int64(charge.Amount), Dimensions: charge.Dimensions.Map(),
		})
	}
	return requests
}
