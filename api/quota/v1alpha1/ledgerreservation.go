package v1alpha1

import (
	"encoding/json"
	"fmt"
)

// storedReservation is the content of the string with a reservation in a stored ledger. The claim is nested JSON, not
// another string.
type storedReservation struct {
	Key        string          `json:"key"`
	Sequence   int64           `json:"sequence"`
	ReservedAt int64           `json:"reservedAt"`
	Charges    []LedgerCharge  `json:"charges,omitempty"`
	Awaits     *LedgerAwaited  `json:"awaits,omitempty"`
	Claim      json.RawMessage `json:"claim,omitempty"`
}

// MarshalJSON encodes the reservation as a string of JSON. Bursar rewrites a ledger with every batch of decisions. The
// API server treats each nested field of a custom resource as an object of its own, but a string as one.
func (r LedgerReservation) MarshalJSON() ([]byte, error) {
	content, err := json.Marshal(storedReservation{
		Key: r.Key, Sequence: r.Sequence, ReservedAt: r.ReservedAt, Charges: r.Charges,
		Awaits: r.Awaits, Claim: json.RawMessage(r.Claim),
	})
	if err != nil {
		return nil, fmt.Errorf("encode reservation %s: %w", r.Key, err)
	}
	return json.Marshal(string(content))
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (r *LedgerReservation) UnmarshalJSON(data []byte) error {
	var content string
	if err := json.Unmarshal(data, &content); err != nil {
		return fmt.Errorf("a reservation is stored as a string: %w", err)
	}
	var stored storedReservation
	if err := json.Unmarshal([]byte(content), &stored); err != nil {
		return fmt.Errorf("decode a reservation: %w", err)
	}
	*r = LedgerReservation{
		Key: stored.Key, Sequence: stored.Sequence, ReservedAt: stored.ReservedAt, Charges: stored.Charges,
		Awaits: stored.Awaits, Claim: string(stored.Claim),
	}
	return nil
}
