package quotausage

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/inventory"
)

// token marks the beginning of a page. Users can read it, so it has only the position of an object that they saw.
type token struct {
	// Question identifies the selection, so nobody continues with another one.
	Question string             `json:"question"`
	After    inventory.Position `json:"after"`
}

// errToken means a token of another question, or none at all.
var errToken = errors.New("spec.continue is not a token of this question: copy status.continue of the previous page, and leave the rest of the spec as it was, or leave it out to start again")

// questionOf identifies the selection of a spec.
func questionOf(spec *quotav1alpha1.QuotaUsageSpec) string {
	selection := *spec
	selection.Limit, selection.Continue = 0, ""
	hash := sha256.Sum256(mustEncode(selection))
	return hex.EncodeToString(hash[:8])
}

// tokenFor returns the token for the page after a position.
func tokenFor(spec *quotav1alpha1.QuotaUsageSpec, after inventory.Position) string {
	return base64.RawURLEncoding.EncodeToString(mustEncode(token{Question: questionOf(spec), After: after}))
}

// positionIn returns the position in the token of a question, or nil without a token.
func positionIn(spec *quotav1alpha1.QuotaUsageSpec) (*inventory.Position, error) {
	if spec.Continue == "" {
		return nil, nil
	}
	content, err := base64.RawURLEncoding.DecodeString(spec.Continue)
	if err != nil {
		return nil, errToken
	}
	var given token
	if err := json.Unmarshal(content, &given); err != nil || given.Question != questionOf(spec) {
		return nil, errToken
	}
	return &given.After, nil
}

func mustEncode(value any) []byte {
	content, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("encode %T: %w", value, err)) // it has only texts and numbers
	}
	return content
}
