package claims

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// reference is a claim reduced to its name, for the reservation of an existing claim.
type reference struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

// Reference returns the name of a directly created claim as JSON. Its reservation has the reference instead of an
// intent.
func Reference(name types.NamespacedName) string {
	var r reference
	r.Metadata.Namespace, r.Metadata.Name = name.Namespace, name.Name
	encoded, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(encoded)
}

// ReferenceOf decodes the result of Reference.
func ReferenceOf(encoded string) (types.NamespacedName, error) {
	var r reference
	if err := json.Unmarshal([]byte(encoded), &r); err != nil {
		return types.NamespacedName{}, fmt.Errorf("decode a reference to a claim: %w", err)
	}
	return types.NamespacedName{Namespace: r.Metadata.Namespace, Name: r.Metadata.Name}, nil
}
