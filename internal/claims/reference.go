package claims

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// reference is a claim reduced to its name, for the reservation of a claim that exists.
type reference struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

// Reference is what the reservation of a claim that was created directly holds in place of a
// claim to create: its name, as JSON.
func Reference(name types.NamespacedName) string {
	var r reference
	r.Metadata.Namespace, r.Metadata.Name = name.Namespace, name.Name
	encoded, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(encoded)
}

// ReferenceOf reads what Reference wrote.
func ReferenceOf(encoded string) (types.NamespacedName, error) {
	var r reference
	if err := json.Unmarshal([]byte(encoded), &r); err != nil {
		return types.NamespacedName{}, fmt.Errorf("decode a reference to a claim: %w", err)
	}
	return types.NamespacedName{Namespace: r.Metadata.Namespace, Name: r.Metadata.Name}, nil
}
