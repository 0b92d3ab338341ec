package claims

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
)

// Subject is the claim and the object of an entry of the journal.
type Subject struct {
	// Claim is the claim, as namespace/name, if it is known.
	Claim string
	// Object is the paying object. Its kind is empty if there is none.
	Object quotav1alpha1.UnversionedObjectReference
}

// storedSubject is a subject as JSON. It also reads the stored form of an [Intent] and of a [Reference].
type storedSubject struct {
	Claim      string `json:"claim,omitempty"`
	APIGroup   string `json:"apiGroup,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Object     string `json:"object,omitempty"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata,omitzero"`
}

// SubjectOf returns the subject of an existing claim as JSON.
func SubjectOf(claim *claimcache.Claim) string {
	kind := claim.Kind()
	stored := storedSubject{Claim: claim.NamespacedName.String(), APIGroup: kind.Group, Kind: kind.Kind}
	if kind.Kind != "" {
		stored.Object = claim.Object.String()
	}
	encoded, err := json.Marshal(stored)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(encoded)
}

// ClaimSubject returns the subject of a claim for an unknown object, as JSON.
func ClaimSubject(name types.NamespacedName) string {
	encoded, err := json.Marshal(storedSubject{Claim: name.String()})
	if err != nil {
		panic(err) // strings always encode
	}
	return string(encoded)
}

// Subject returns the subject of an intent's claim, as JSON.
func (i Intent) Subject() string {
	encoded, err := json.Marshal(storedSubject{Claim: i.claimName(), APIGroup: i.Kind.Group, Kind: i.Kind.Kind, Object: i.Object.String()})
	if err != nil {
		panic(err) // strings always encode
	}
	return string(encoded)
}

// ObjectSubject returns the subject of an object without a claim, as JSON.
func ObjectSubject(kind schema.GroupKind, name types.NamespacedName) string {
	encoded, err := json.Marshal(storedSubject{APIGroup: kind.Group, Kind: kind.Kind, Object: name.String()})
	if err != nil {
		panic(err) // strings always encode
	}
	return string(encoded)
}

// DecodeSubject decodes the result of SubjectOf, or the payload of a reservation. It returns an empty subject for an
// unreadable text.
func DecodeSubject(encoded string) Subject {
	var stored storedSubject
	if json.Unmarshal([]byte(encoded), &stored) != nil {
		return Subject{}
	}
	s := Subject{Claim: stored.Claim}
	if stored.Metadata.Name != "" {
		s.Claim = types.NamespacedName{Namespace: stored.Metadata.Namespace, Name: stored.Metadata.Name}.String()
	}
	if stored.Kind == "" {
		return s
	}
	group := stored.APIGroup
	if before, _, isGrouped := strings.Cut(stored.APIVersion, "/"); isGrouped {
		group = before
	}
	name := nameOf(stored.Object)
	s.Object = quotav1alpha1.UnversionedObjectReference{APIGroup: group, Kind: stored.Kind, Namespace: name.Namespace, Name: name.Name}
	return s
}
