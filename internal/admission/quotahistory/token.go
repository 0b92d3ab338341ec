package quotahistory

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// token marks the beginning of a page. The first page has the zero token.
type token struct {
	// Ledger names the consumer's ledger, so nobody continues with another consumer.
	Ledger string `json:"ledger"`
	// Sequence and Time are those of the last entry of the page before.
	Sequence int64     `json:"sequence"`
	Time     time.Time `json:"time,omitzero"`
}

// String returns the form of the token for users.
func (t token) String() string {
	content, err := json.Marshal(t)
	if err != nil {
		// The form of JSON has no years beyond 9999. The next page then begins its search with the journal.
		return token{Ledger: t.Ledger, Sequence: t.Sequence}.String()
	}
	return base64.RawURLEncoding.EncodeToString(content)
}

// errToken means a token of another consumer, or none at all.
var errToken = errors.New("spec.continue is not a token of this consumer's history: copy status.continue of the previous page, or leave it out to start again")

// tokenOf returns the token of a question.
func tokenOf(spec *quotav1alpha1.QuotaHistorySpec) (token, error) {
	from := token{Ledger: naming.Ledger(spec.ConsumerRef)}
	if spec.Continue == "" {
		return from, nil
	}
	content, err := base64.RawURLEncoding.DecodeString(spec.Continue)
	if err != nil {
		return from, errToken
	}
	var given token
	if err := json.Unmarshal(content, &given); err != nil || given.Ledger != from.Ledger || given.Sequence < 0 {
		return from, errToken
	}
	return given, nil
}
